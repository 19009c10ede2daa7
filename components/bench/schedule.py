"""Which rates are run, in which order, with which seeds. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

AUTO = "auto"
CLOSE = 1.15
"""`auto` stops when the first missed rate is at most this many times the last good one."""
SMALLEST_RATE_PER_S = 0.01
"""Below, a hundred requests take hours."""
MAX_SEED = 2**31
DIGITS = 3


class NotRates(ValueError):
    """`--rates` can't be read; the message says what was found and what is wanted."""


@dataclass(frozen=True)
class Slot:
    """One run: of the stack at `stack`, with `requests` requests from `seed`."""

    stack: int
    requests: int
    seed: int


def parse_rates(text: str) -> tuple[float, ...] | None:
    """Rates in requests per second, ascending and without repeats; None for `auto`. Raises NotRates."""
    if text.strip() == AUTO:
        return None
    try:
        rates = sorted({float(part) for part in text.split(",")})
    except ValueError:
        rates = []
    if not rates or not all(SMALLEST_RATE_PER_S <= rate < float("inf") for rate in rates):
        raise NotRates(
            f"found `{text}`; wanted requests per second from {SMALLEST_RATE_PER_S:g} on, such as 0.2,0.4,1, or {AUTO}"
        )
    return tuple(rates)


def next_rate(good: Mapping[float, bool], start: float) -> float | None:
    """The next rate to try for one stack: doubled while good, halved while missed, then the middle.

    `good` says of each rate tried whether it was. None when the goodput is known closely enough, or lies
    below the smallest rate.
    """
    if not good:
        return start
    missed = min((rate for rate, met in good.items() if not met), default=None)
    held = max((rate for rate, met in good.items() if met and (missed is None or rate < missed)), default=None)
    if missed is None:
        return round(max(good) * 2, DIGITS)
    if held is None:
        half = round(missed / 2, DIGITS)
        return half if half >= SMALLEST_RATE_PER_S else None
    if missed <= held * CLOSE:
        return None
    middle = round((held * missed) ** 0.5, DIGITS)
    return middle if held < middle < missed else None


def next_rate_of_all(tried: Sequence[Mapping[float, bool]], start: float) -> float | None:
    """The next rate for several stacks that are all measured at the same ones."""
    return next((rate for good in tried if (rate := next_rate(good, start)) is not None), None)


def slots(stacks: int, requests: int, seed: int, round_number: int) -> tuple[Slot, ...]:
    """The runs of one rate. Two stacks take turns, A B B A with half of the requests each time: what drifts
    in a straight line (a warming machine, a filling disk) weighs on both alike.

    Both get the same seeds, hence the same prompts at the same times. No stack gets a seed twice: it would
    find the prompts' KV in its prefix cache.
    """
    first, second = ((seed + 2 * round_number + half) % MAX_SEED for half in (1, 2))
    if stacks == 1:
        return (Slot(0, requests, first),)
    half = -(-requests // 2)
    return (Slot(0, half, first), Slot(1, half, first), Slot(1, half, second), Slot(0, half, second))
