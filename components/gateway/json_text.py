"""JSON by msgspec, which is in vLLM's own image (vllm 0.30.0 and 0.32.0 METADATA, Requires-Dist), where this runs."""

from __future__ import annotations

from typing import Any

import msgspec

write_json = msgspec.json.encode


class NotJson(ValueError):
    """A text is no JSON, or is nested deeper than anybody's request."""


def read_json(raw: bytes | bytearray) -> Any:
    """Raises: NotJson."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as fault:
        raise NotJson(str(fault)) from None
