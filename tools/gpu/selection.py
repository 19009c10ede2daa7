"""Which file of which wheel is carried, and in which archive. Pure.

`base` is enough for NIXL on dense models; the others come when they are needed, so that nothing waits for them.
"""

from __future__ import annotations

import re

BASE, MOE, MOONCAKE = "base", "moe", "mooncake"
ARCHIVES = (BASE, MOE, MOONCAKE)
"""In the order in which they are carried."""

LEFT_OUT = re.compile(
    r"""
    ^vllm/vllm-rs$                                        # another front end
  | ^vllm/_rust_tool_parser
  | ^vllm/vllm_flash_attn/_vllm_fa2_C                     # Hopper has its own: fa3
  | ^vllm/third_party/(deep_gemm|fmha_sm100)/             # FP8, Blackwell
  | ^vllm/_(flashmla|deepselect|flashkda|qutlass)_        # MLA, FP4
  | ^vllm/_flashmla_
  | ^nixl_ep                                              # expert parallelism, one build for each torch
  | \.data/headers/ | \.data/scripts/ | ^nixl_cu13\.scripts/
  | libucx_perftest | \.la$
  | ^mooncake/(libetcd_wrapper\.so|mooncake_client|transfer_engine_bench|libmooncake_pg|_ep\.|libmooncake_ep|_pg_jit|mooncake_ep_jit|reshard)
  | (^|/)tests?/ | \.pyi$ | \.png$
  | swagger-ui
    """,
    re.VERBOSE,
)
KEPT = re.compile(r"^nixl_cu13\.libs/|^\.nixl_cu13\.mesonpy\.libs/")
"""Whole: its libraries name each other."""


def archive_of(wheel: str, path: str) -> str | None:
    """The archive that a wheel's file belongs to; None: it stays behind. `wheel` is the wheel's file name."""
    if LEFT_OUT.search(path) and not (KEPT.search(path) and "perftest" not in path and not path.endswith(".la")):
        return None
    if wheel.startswith("mooncake"):
        return MOONCAKE
    return MOE if path.startswith("vllm/_moe_C") else BASE


def placed(path: str) -> str:
    """Where a wheel's file lies once it is installed: `NAME.data/purelib/x` and platlib go to the top."""
    head, _, rest = path.partition("/")
    kind, _, inner = rest.partition("/")
    return inner if head.endswith(".data") and kind in ("purelib", "platlib") else path
