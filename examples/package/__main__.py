"""Serve a model by the package: `pulumi package add PATH_OF_SPLITSERVE/package` has written its SDK.

The same in TypeScript is `examples/package-typescript`.
"""

import pulumi
import pulumi_splitserve as splitserve

config = pulumi.Config()
served = splitserve.Serving(
    "chat",
    platform={"kind": "existing", "kubeconfig": config.require("kubeconfig"), "namespace": "chat"},
    image="registry.example/vllm@sha256:1111111111111111111111111111111111111111111111111111111111111111",
    model={
        "name": config.require("model"),
        "hugging_face": {
            "repository": "Qwen/Qwen3-0.6B",
            "revision": "c1899de289a04d12100db370d81485cdf75e47ca",
            "config": "model/config.json",
        },
    },
    engine={"resources": {"cpu": "1", "memory": "4Gi", "shm": "1Gi"}},
    gate={"limit_ms": config.require_int("limitMs"), "age": "off"},
)

pulumi.export("endpoint", served.endpoint)
pulumi.export("model", served.model)
pulumi.export("release", served.live)
pulumi.export("kvTransferMs", served.kv_transfer_ms)
pulumi.export("verdict", served.verdict)
