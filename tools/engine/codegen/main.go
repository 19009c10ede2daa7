// Writes a package's SDK from its schema, by Pulumi's own generators.
//
//	sdk-generator LANGUAGE FOLDER [local] < schema.json
//
// Pulumi's language hosts, which call these generators for `pulumi package add`, are not served as modules.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	golang "github.com/pulumi/pulumi/pkg/v3/codegen/go"
	"github.com/pulumi/pulumi/pkg/v3/codegen/nodejs"
	"github.com/pulumi/pulumi/pkg/v3/codegen/python"
	"github.com/pulumi/pulumi/pkg/v3/codegen/schema"
)

func main() {
	if err := write(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(arguments []string) error {
	if len(arguments) < 2 {
		return fmt.Errorf("usage: sdk-generator nodejs|python|go FOLDER [local] < schema.json")
	}
	var spec schema.PackageSpec
	if err := json.NewDecoder(os.Stdin).Decode(&spec); err != nil {
		return fmt.Errorf("the schema on standard input: %w", err)
	}
	files, err := generate(arguments[0], spec, len(arguments) > 2 && arguments[2] == "local")
	if err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(arguments[1], name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func generate(language string, spec schema.PackageSpec, local bool) (map[string][]byte, error) {
	loader := noOthers{}
	bound, found, err := schema.BindSpec(spec, loader, schema.ValidationOptions{})
	if err != nil {
		return nil, err
	}
	if found.HasErrors() {
		return nil, found
	}
	// As `pulumi package add` has it; of `gen-sdk` alone a Go module's path would differ.
	bound.SupportPack = bound.SupportPack || local
	const tool = "splitserve's tools"
	switch language {
	case "nodejs":
		return nodejs.GeneratePackage(tool, bound, nil, nil, local, loader)
	case "python":
		return python.GeneratePackage(tool, bound, nil, loader)
	case "go":
		return golang.GeneratePackage(tool, bound, nil)
	}
	return nil, fmt.Errorf("language: found %q, wanted nodejs, python or go", language)
}
