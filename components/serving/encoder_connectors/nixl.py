"""NIXL from host memory to host memory: ECCPUConnector with `ec_enable_nixl`.

Each side keeps embeddings in a region of /dev/shm, least recently used out first; the engine reads an item from
the encoder that made it, at the address in the encoder's answer (cpu/scheduler/__init__.py).
"""

from __future__ import annotations

from typing import Any

from components.serving.encoder_connectors.profile import EncoderConnectorProfile
from components.serving.spec import EncoderSpec


def _options(encoder: EncoderSpec) -> dict[str, Any]:
    return {"ec_cpu_bytes": int(encoder.cpu_gib * 2**30), "ec_enable_nixl": True}


V2 = {"VLLM_USE_V2_MODEL_RUNNER": "1"}
"""cpu/connector.py refuses the other runner; set, so that vLLM says why instead of falling back to it."""

NIXL = EncoderConnectorProfile(
    name="nixl",
    vllm_class="ECCPUConnector",
    sources=("cpu/connector.py", "cpu/scheduler/__init__.py", "cpu/data/nixl.py"),
    options=_options,
    environment={
        "producer": {
            **V2,
            "VLLM_EC_SIDE_CHANNEL_HOST": "field:status.podIP",
            "VLLM_EC_SIDE_CHANNEL_PORT": "$port",
        },
        "consumer": V2,
    },
    in_folder=False,
    on_cpu=False,  # config/vllm.py: "Model Runner V2 requires Triton.", which has no CPU backend
    limits=("registers its memory with NIXL's backend UCX alone (cpu/data/nixl.py)",),
)
