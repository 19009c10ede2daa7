"""Two components in one stack; what the second says of itself is known only once the first is there."""

import pulumi
import pulumi_splitserve as splitserve

kubeconfig = pulumi.Config().require("kubeconfig")
MODEL: splitserve.ModelArgsDict = {
    "name": "chat",
    "hugging_face": {"repository": "Qwen/Qwen3-0.6B", "revision": "c1899de", "config": "model/config.json"},
}
IMAGE = "registry.example/vllm@sha256:1111111111111111111111111111111111111111111111111111111111111111"


def serve(name: str, note: pulumi.Input[str]) -> splitserve.Serving:
    return splitserve.Serving(
        name,
        platform={"kind": "existing", "kubeconfig": kubeconfig, "namespace": name},
        image=IMAGE,
        model=MODEL,
        note=note,
        gate={"age": "off"},
    )


first = serve("first", "")
second = serve("second", first.endpoint)
pulumi.export("first", first.live)
pulumi.export("second", second.live)
