"""What the autoscaler remembers: pages for rates, sizes and recommendations for its windows, and how much
a prefill pod can do. Times are seconds of one monotonic clock, given by the caller."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from .signals import Page, Sample

GAUGES = ("running", "waiting", "queue", "kv_usage", "kv_usage_max")
SATURATED_INTERVALS = 60
FEWEST_SATURATED = 6
"""Half a minute at the default period: one interval alone says little, since vLLM counts a prompt's tokens
when its prefill ends."""


class Window:
    """Values of the last `window_s` seconds."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._values: deque[tuple[float, int]] = deque()

    def add(self, now: float, value: int) -> None:
        self._values.append((now, value))
        self._forget(now)

    def _forget(self, now: float) -> None:
        while self._values and self._values[0][0] < now - self._window_s:
            self._values.popleft()

    def lowest(self, now: float, otherwise: int) -> int:
        """The least value of the window, `otherwise` while it has none."""
        self._forget(now)
        return min((value for _, value in self._values), default=otherwise)

    def highest(self, now: float, otherwise: int) -> int:
        self._forget(now)
        return max((value for _, value in self._values), default=otherwise)

    def clear(self) -> None:
        self._values.clear()


class TierHistory:
    """One tier of one release: which sizes it was seen at and which were recommended."""

    def __init__(self, up_window_s: float, down_window_s: float, up_step_s: float, down_step_s: float) -> None:
        self.asked_up, self.asked_down = Window(up_window_s), Window(down_window_s)
        self.sizes_up, self.sizes_down = Window(up_step_s), Window(down_step_s)
        self._seen = False

    def see(self, now: float, size: int) -> None:
        """Note a size. The first one counts as recommended: who has just started, or just saw the tier start,
        knows no better."""
        if size == 0:
            for window in (self.asked_up, self.asked_down, self.sizes_up, self.sizes_down):
                window.clear()
            self._seen = False
            return
        if not self._seen:
            self.recommend(now, size)
            self._seen = True
        self.sizes_up.add(now, size)
        self.sizes_down.add(now, size)

    def recommend(self, now: float, size: int) -> None:
        self.asked_up.add(now, size)
        self.asked_down.add(now, size)


class PodHistory:
    """The pages of one pod within the rate window. Gauges are averaged over the last `average_s`: a queue that
    fills and empties with each batch says at one moment nothing of the load."""

    def __init__(self, window_s: float, average_s: float = 0.0) -> None:
        self._window_s, self._average_s = window_s, average_s
        self._pages: deque[tuple[float, Page]] = deque()

    def add(self, now: float, page: Page) -> Sample | None:
        """Returns this page and the one before; None at first, or when the pod's container started anew."""
        if self._pages and _restarted(self._pages[-1][1], page):
            self._pages.clear()
        before = self._pages[-1] if self._pages else None
        self._pages.append((now, page))
        while now - self._pages[0][0] > self._window_s:
            self._pages.popleft()
        return Sample(page, before[1], now - before[0]) if before else None

    def sample(self) -> Sample:
        first, last = self._pages[0], self._pages[-1]
        recent = [page for taken, page in self._pages if last[0] - taken <= self._average_s]
        return Sample(averaged(recent), first[1], last[0] - first[0])


def averaged(pages: Sequence[Page]) -> Page:
    """The newest page with its gauges averaged over all of them."""

    def mean(figure: str) -> float | None:
        values = [value for page in pages if (value := getattr(page, figure)) is not None]
        return sum(values) / len(values) if values else None

    return replace(pages[-1], **{figure: mean(figure) for figure in GAUGES})


def _restarted(before: Page, after: Page) -> bool:
    """Counters never fall while a process lives."""
    pairs = (
        (before.computed_tokens, after.computed_tokens),
        (before.cpu_s, after.cpu_s),
        (before.http_s, after.http_s),
    )
    falls = any(old is not None and new is not None and new < old for old, new in pairs)
    return falls or any(
        count < old.get(bound, 0.0)
        for old, new in ((before.ttft, after.ttft), (before.itl, after.itl))
        for bound, count in new.items()
    )


class Capacity:
    """Prompt tokens that one pod computes a second, learned while it has a queue: it can't do more then."""

    def __init__(self, known: float = 0.0) -> None:
        self._known = known
        self._saturated: deque[tuple[float, float]] = deque(maxlen=SATURATED_INTERVALS)

    def observe(self, interval: Sample) -> None:
        before, after = interval.first, interval.last
        if before.computed_tokens is None or after.computed_tokens is None or interval.seconds <= 0:
            return
        if (before.queue or 0) >= 1 and (after.queue or 0) >= 1:
            self._saturated.append((after.computed_tokens - before.computed_tokens, interval.seconds))

    @property
    def tokens_per_s(self) -> float | None:
        """What was given by hand, else what was seen; None while too little was seen."""
        if self._known > 0:
            return self._known
        tokens = sum(count for count, _ in self._saturated)
        if len(self._saturated) < FEWEST_SATURATED or tokens <= 0:
            return None
        return tokens / sum(seconds for _, seconds in self._saturated)
