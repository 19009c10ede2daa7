"""What a check is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from components.check.engine import Target
from components.hardware.geometry import Geometry

AGE_LIMIT_S = 120
"""For `--age on`, as the gate's `auto`."""


@dataclass(frozen=True)
class Deployment:
    """The engines of both tiers, and the router before them if one is to be asked."""

    prefill: tuple[Target, ...]
    decode: tuple[Target, ...]
    router: str | None = None


@dataclass(frozen=True)
class Settings:
    """How to measure and what to hold it against. Times in the unit of their name, lengths in tokens.

    `prompt_stated`: the length is the user's own, not the default. `dtype` is the engines' where it is
    not the model's. `age_limit_s` 0: don't age.
    """

    limit_ms: float = 100.0
    samples: int = 5
    prompt_tokens: int = 1024
    prompt_stated: bool = False
    answer_tokens: int = 8
    age_limit_s: float = AGE_LIMIT_S
    request_limit_s: float = 60.0
    model: str | None = None
    geometry: Geometry | None = None
    dtype: str | None = None
    tensor_parallel: int = 1
    connector: str | None = None
    accept_unmeasured: bool = False


@dataclass(frozen=True)
class Fault:
    """Why nothing could be measured: a word for it, and a sentence that ends in the way out."""

    kind: str
    message: str


class CannotCheck(Exception):
    """Nothing can be measured; every reason at once."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("; ".join(fault.message for fault in faults))
        self.faults = faults
