"""NIXL push: the prefiller writes the KV cache to the decoder, behind vllm-router, as a gated release."""

from __future__ import annotations

from typing import Any

from components.hardware.read_geometry import read_geometry
from tests.cluster.asking import Record, engine_url, greedy, shaped
from tools.deployment import Deployment
from tools.localcluster.model import config


def pushed(settings: dict[str, Any]) -> None:
    shaped("prefill-decode", 0)(settings)
    settings["splitserve:note"] = "the prefiller pushes"
    settings["splitserve:connector"] = {"name": "nixl-push"}
    # Ageing asks the two tiers one after the other, which a push takes 60 s for: the estimate is enough here.
    settings["splitserve:gate"] |= {"age": "off"}


def test_a_push_is_measured_on_the_prefiller_and_says_what_one_engine_says(
    live: Deployment, record_property: Record
) -> None:
    finished = live.up(pushed)
    assert finished.code == 0, finished.text
    outputs = live.outputs()
    assert outputs["verdict"] == "pass"
    geometry, block_size = read_geometry(config()), 32
    [pair] = outputs["gate"]["evidence"]["pairs"]
    assert pair["fresh"]
    for sample in pair["fresh"]:
        assert sample["bytes"] == geometry.transfer(sample["tokens"], block_size, "bfloat16").total_bytes
        assert sample["answer"] == sample["reference"]
    assert outputs["gate"]["evidence"]["router"]["external_tokens"] > 0
    record_property("kv_transfer_ms", outputs["kvTransferMs"])
    # The prefiller, asked by itself, is vLLM without a transfer.
    assert greedy(outputs) == greedy(outputs | {"endpoint": engine_url(live, "prefill")})
