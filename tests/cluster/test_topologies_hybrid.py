"""A model of attention and recurrent states (Mamba 2), prefilled on one pod and decoded on another.

In float32: the last prompt token goes through the decode kernel, the reference's through the prefill kernel, and in
bfloat16 half of the answers of this model part ways there without any transfer (docs/measurements/connectors-cpu.md).
"""

from __future__ import annotations

from typing import Any

from components.hardware.read_geometry import read_geometry
from tests.cluster.asking import greedy, shaped
from tools.cache import CHECKOUT, cache
from tools.deployment import Deployment
from tools.localcluster.hybrid_model import granite_config, make_hybrid

MODEL = "tiny-granite-hybrid"
BLOCK_SIZE = 160
"""A page of attention holds a layer's states: 138,752 bytes of 1,024 a token."""


def hybrid(settings: dict[str, Any]) -> None:
    shaped("prefill-decode", 0)(settings)
    settings["splitserve:note"] = "a hybrid model"
    settings["splitserve:model"] = {"name": MODEL, "folder": f".local/models/{MODEL}"}
    engine = settings["splitserve:engine"]
    engine |= {"dtype": "float32", "blockSize": BLOCK_SIZE, "gpuBlocks": 128}
    engine["environment"] = engine["environment"] | {"VLLM_SSM_CONV_STATE_LAYOUT": "DS"}
    # vLLM 0.32 on CPU ends with an IndexError at the first prompt of two chunks: mamba_mixer2.py takes what the CPU
    # kernel returns, a state a request, for a state a chunk.
    for tier in ("prefill", "decode"):
        settings[f"splitserve:{tier}"] = {"extraArgs": ["--no-enable-prefix-caching"]}


def test_states_move_with_the_blocks_and_as_many_bytes_as_the_plan_says(live: Deployment) -> None:
    folder = cache().layout().models / MODEL
    if not folder.exists():
        make_hybrid(MODEL, folder, (CHECKOUT / "LICENSE").read_text())
    finished = live.up(hybrid)
    assert finished.code == 0, finished.text
    outputs = live.outputs()
    assert outputs["verdict"] == "pass"
    geometry = read_geometry(granite_config())
    for pair in outputs["gate"]["evidence"]["pairs"]:
        for sample in (*pair["fresh"], *pair["aged"]):
            # The prefiller leaves the last prompt token to the decoder.
            moved = geometry.transfer(sample["tokens"] - 1, BLOCK_SIZE, "float32")
            assert sample["bytes"] == moved.total_bytes
            assert sample["external_tokens"] == sample["tokens"] - 1
            assert sample["answer"] == sample["reference"]
    assert greedy(outputs)
