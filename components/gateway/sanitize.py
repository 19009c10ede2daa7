"""What no client may say: where KV or encoder cache is to be read from, and where it is to be written.

An engine trusts `kv_transfer_params` (vLLM 0.32 `openai/*/protocol.py` puts them into `extra_args`
beside the client's `vllm_xargs`): a client that could send them would make a decode pod read any
address as another user's KV cache. Names are compared whole, at the places that vLLM reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

FORBIDDEN = ("kv_transfer_params", "ec_transfer_params")
CARRIERS = ("vllm_xargs", "extra_args", "sampling_params", "extra_body")


def strip(body: dict[str, Any]) -> list[str]:
    """Remove the forbidden keys in place. Returns the name of each one that was there."""
    return list(_strip(body))


def _strip(body: dict[str, Any]) -> Iterator[str]:
    for name in FORBIDDEN:
        if body.pop(name, None) is not None:
            yield name
    for carrier in CARRIERS:
        inner = body.get(carrier)
        if isinstance(inner, dict):
            yield from _strip(inner)
