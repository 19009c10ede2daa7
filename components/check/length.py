"""How long the check's prompts are: what was asked for, as far as the engines take it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from components.check.engine import Engine
from components.check.settings import CannotCheck, Fault, Settings

LEAST_BLOCKS = 2
"""Fewer can't be halved for the second length."""


@dataclass(frozen=True)
class Length:
    """In tokens; `note` says why it is not the default."""

    prompt_tokens: int
    max_model_len: int
    note: str | None = None


def choose_length(engines: Sequence[Engine], settings: Settings) -> Length:
    """A default that the engines don't take is changed and said; a stated one raises CannotCheck."""
    longest = min(engine.max_model_len for engine in engines)
    block = max(engine.block_size for engine in engines)
    least, most = LEAST_BLOCKS * block, (longest - settings.answer_tokens) // block * block
    found, answer = settings.prompt_tokens, settings.answer_tokens
    if most < least:
        raise CannotCheck([_too_short("the model's context", longest, least, answer)])
    if least <= found <= longest - answer:
        return Length(found, longest)
    if not settings.prompt_stated:
        chosen = least if found < least else most
        note = (
            f"prompts have {chosen} tokens instead of {found}: a KV block has {block}, and the engines take {longest}"
        )
        return Length(chosen, longest, f"{note} in all; longer prompts take longer")
    if found < least:
        raise CannotCheck([_too_short("--prompt-tokens", found, least, answer)])
    raise CannotCheck([Fault("context-too-short", (
        f"--prompt-tokens: found {found} and {answer} for the answer, but the engines take {longest} in all; wanted at "
        f"most {most}"))])  # fmt: skip


def _too_short(what: str, found: int, least: int, answer: int) -> Fault:
    return Fault("context-too-short", (
        f"{what}: found {found} tokens, wanted at least two KV blocks ({least} tokens), and {answer} more for the "
        "answer"))  # fmt: skip
