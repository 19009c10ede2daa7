// Command pulumi-resource-kubernetes serves pulumi-kubernetes' provider without its
// schema: the upstream main embeds files that are generated and absent from the module.
package main

import "github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"

// version must equal that of the Python SDK in uv.lock: the engine asks for it by name.
var version = "0.0.0"

func main() {
	provider.Serve("kubernetes", version, []byte("{}"), []byte("{}"))
}
