package main

import (
	"context"
	"fmt"

	"github.com/blang/semver"
	"github.com/pulumi/pulumi/pkg/v3/codegen/schema"
)

// noOthers loads no package: a schema must stand alone.
type noOthers struct{}

func (noOthers) LoadPackage(name string, _ *semver.Version) (*schema.Package, error) {
	return nil, refused(name)
}

func (noOthers) LoadPackageV2(_ context.Context, wanted *schema.PackageDescriptor) (*schema.Package, error) {
	return nil, refused(wanted.Name)
}

func (noOthers) LoadPackageReference(name string, _ *semver.Version) (schema.PackageReference, error) {
	return nil, refused(name)
}

func (noOthers) LoadPackageReferenceV2(
	_ context.Context, wanted *schema.PackageDescriptor,
) (schema.PackageReference, error) {
	return nil, refused(wanted.Name)
}

func refused(name string) error {
	return fmt.Errorf("the schema refers to package %s; wanted one that refers to no other package", name)
}
