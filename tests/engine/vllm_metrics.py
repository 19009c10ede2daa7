"""The metrics page that vLLM's own code makes (vllm 0.32): run in vLLM's environment, not in ours.

    PYTHONPATH=<vLLM's site folder> python3.11 tests/engine/vllm_metrics.py ROLE=CONNECTOR...

Builds vLLM's Prometheus logger with the statistics of each connector, without an engine or a model, records one
request, and prints one page each, with `# EOF` as its last line. Every label of every series is vLLM's own.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

# vLLM reads these when it is imported. Its log goes to stdout, which is for the result.
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

from prometheus_client import REGISTRY, generate_latest
from vllm.config import KVTransferConfig
from vllm.v1.metrics.loggers import PrometheusStatLogger
from vllm.v1.metrics.stats import IterationStats, SchedulerStats


class Anything(SimpleNamespace):
    """What is not asked about is off."""

    def __getattr__(self, _name: str) -> Any:
        return None


def configuration(role: str, connector: str) -> Any:
    transfer = KVTransferConfig(kv_connector=connector, kv_role=role)
    model = Anything(served_model_name="tiny-qwen3", max_model_len=2048, is_diffusion=False)
    observed = Anything(show_hidden_metrics=False, kv_cache_metrics=False)
    return Anything(model_config=model, observability_config=observed, kv_transfer_config=transfer)


def page(role: str, connector: str) -> str:
    logger = PrometheusStatLogger(configuration(role, connector))
    iteration = IterationStats()
    iteration.time_to_first_tokens_iter = [0.05]
    iteration.inter_token_latencies_iter = [0.01]
    logger.record(SchedulerStats(), iteration)
    return generate_latest(REGISTRY).decode()


if __name__ == "__main__":
    for asked in sys.argv[1:]:
        # Each logger begins by taking away what the one before has registered.
        print(page(*asked.split("=")), end="# EOF\n")
