"""One benchmark: warm up, then rate after rate, until the rates are through or the goodput is known.

Knows no Kubernetes: whoever calls it says how one run is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from components.bench.figures import Point, point
from components.bench.load import Load, Targets
from components.bench.reading import Run
from components.bench.schedule import Slot, next_rate_of_all, slots

WARM_UP_REQUESTS = 5
WARM_UP_RATE_PER_S = 1.0

Runner = Callable[[Slot, float], Run]
"""Makes one run of a slot at a rate."""


class WarmUpFailed(Exception):
    """No request of a stack's warm-up was answered; the message has the reason, `stack` its place."""

    def __init__(self, stack: int, reason: str) -> None:
        super().__init__(reason)
        self.stack = stack


@dataclass(frozen=True)
class Search:
    """Fixed `rates`, or None: found from `start` on, in at most `max_rates` of them."""

    rates: tuple[float, ...] | None
    start: float
    max_rates: int


@dataclass
class Measurement:
    """`points` has one list a stack, which grows while the benchmark runs."""

    stacks: int
    load: Load
    targets: Targets
    search: Search
    seed: int
    points: list[list[Point]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.points = [[] for _ in range(self.stacks)]

    def rates(self) -> Iterator[float]:
        """The rates one after the other; for `auto` each depends on what was measured before."""
        if self.search.rates is not None:
            yield from self.search.rates
            return
        for _ in range(self.search.max_rates):
            tried = [{p.rate_per_s: p.good(self.targets) for p in points} for points in self.points]
            rate = next_rate_of_all(tried, self.search.start)
            if rate is None:
                return
            yield rate

    def run(self, runner: Runner) -> None:
        """Measure everything. What the runner raises ends it; the points until then stay."""
        for stack in range(self.stacks):
            self._warm_up(stack, runner)
        for round_number, rate in enumerate(self.rates()):
            runs: list[list[Run]] = [[] for _ in range(self.stacks)]
            for slot in slots(self.stacks, self.load.requests, self.seed, round_number):
                runs[slot.stack].append(runner(slot, rate))
            for stack, done in enumerate(runs):
                self.points[stack].append(point(rate, done, self.targets))

    def _warm_up(self, stack: int, runner: Runner) -> None:
        """A run that is thrown away: first connections between tiers, first kernels, first allocations."""
        warm = runner(Slot(stack, WARM_UP_REQUESTS, self.seed), WARM_UP_RATE_PER_S)
        errors = [request.error for request in warm.requests if request.error]
        if len(errors) == len(warm.requests):
            raise WarmUpFailed(stack, str(errors[0]))
