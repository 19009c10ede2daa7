"""What vLLM's own command line makes of an engine's arguments: run in vLLM's environment (vllm 0.32), not in ours.

    PYTHONPATH=<vLLM's site folder> python3.11 tests/engine/vllm_groups.py MODEL_FOLDER < cases.json

Reads a list of cases {name, args}, the arguments of `vllm serve` as a pod gets them, and prints one JSON object a case:
what vLLM takes the ranks and addresses to be, or why it refuses them.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import json
import os
import sys
from typing import Any

# vLLM reads these when it is imported. Its log goes to stdout, which is for the result.
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")

from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser


def understood(args: list[str], model: str) -> dict[str, Any]:
    parsed = make_arg_parser(FlexibleArgumentParser()).parse_args([model, *args])
    # As `vllm serve` does it (entrypoints/cli/serve.py).
    parsed.model = parsed.model_tag
    config = AsyncEngineArgs.from_cli_args(parsed).create_engine_config(headless=parsed.headless)
    parallel = config.parallel_config
    return {
        "headless": parsed.headless,
        "nodes": parallel.nnodes,
        "rank": parallel.node_rank,
        "rank_within_copy": parallel.node_rank_within_dp,
        "ranks_on_node": parallel.local_world_size,
        "copies_on_node": parallel.data_parallel_size_local,
        "first_copy": parallel.data_parallel_rank,
        "master": f"{parallel.master_addr}:{parallel.master_port}",
        "data": f"{parallel.data_parallel_master_ip}:{parallel.data_parallel_rpc_port}",
        "experts": parallel.enable_expert_parallel,
        "backend": parallel.distributed_executor_backend,
    }


if __name__ == "__main__":
    for case in json.load(sys.stdin):
        try:
            answer = understood(case["args"], sys.argv[1])
        except (SystemExit, ValueError) as refused:
            answer = {"error": str(refused)}
        print(json.dumps({"name": case["name"], **answer}), flush=True)
