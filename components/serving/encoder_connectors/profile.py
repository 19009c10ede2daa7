"""What an encoder connector's profile says: what differs between vLLM's ways of handing embeddings over.

Facts are those of vllm 0.32; files are named relative to its `distributed/ec_transfer/ec_connector/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from components.serving.spec import EncoderSpec

Side = Literal["producer", "consumer"]
"""The encoder tier, and the tier that prompts go to first: prefill or collocated."""


@dataclass(frozen=True)
class EncoderConnectorProfile:
    """`options` makes `ec_connector_extra_config`, the same on both sides. `environment` maps each side's
    variables to values, to a field of the pod where they begin with `field:`, and to the side channel's port
    where they are `$port`. `in_folder`: embeddings go through a folder that all pods share."""

    name: str
    vllm_class: str
    sources: tuple[str, ...]
    options: Callable[[EncoderSpec], dict[str, Any]]
    environment: Mapping[Side, Mapping[str, str]]
    in_folder: bool
    on_cpu: bool
    """Whether it works with vLLM's CPU backend."""
    limits: tuple[str, ...] = ()
