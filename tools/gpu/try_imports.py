"""Import what a packed tree holds, each module in a process of its own: `python3 -m tools.gpu.try_imports TREE…`.

Says of each whether it loads, and if not, what it lacks: without a GPU's machine only modules that need neither torch
nor the CUDA driver can.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

MODULES = (
    "pydantic", "pydantic_settings", "fastapi", "starlette", "uvicorn", "httptools", "websockets", "multipart", "watchfiles",
    "sse_starlette", "httpx2", "prometheus_fastapi_instrumentator", "mcp", "openai", "anthropic", "jiter", "openai_harmony",
    "jsonschema", "msgspec", "zmq", "cbor2", "ijson", "pybase64", "blake3", "cachetools", "loguru", "pycountry", "lark",
    "interegular", "outlines_core", "partial_json_parser", "astor", "dill", "pythonjsonlogger", "setproctitle", "llguidance",
    "llguidance.hf", "nixl_cu13._bindings", "nixl_cu13._api", "nixl", "mooncake.engine", "vllm.version", "vllm.envs",
)  # fmt: skip
LIMIT_S = 120


def loads(trees: Sequence[str], module: str) -> str | None:
    """None, or the last line of what went wrong."""
    done = subprocess.run(
        [sys.executable, "-c", f"import {module}"], capture_output=True, text=True, timeout=LIMIT_S, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(trees)},
    )  # fmt: skip
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def main() -> None:
    found = {module: loads(sys.argv[1:], module) for module in MODULES}
    for module, fault in found.items():
        print(f"{module}: {fault or 'loads'}")
    print(f"{sum(fault is None for fault in found.values())} of {len(found)} load")


if __name__ == "__main__":
    main()
