"""Tell by a metrics page which process made it. Pure.

prometheus_client exposes the start of its process, and when each series was created: no two processes
agree in all of them. Its multiprocess mode (vLLM with several API servers) exposes neither; there only
counters that go backwards show that two processes answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

Series = Mapping[str, list[tuple[dict[str, str], float]]]
"""As probe.parse_metrics makes it: {name: [(labels, value)]}."""
Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]

START = "process_start_time_seconds"
COUNTING = ("_total", "_count")
"""`_sum` is left out: a float that is added up in another order may be smaller by its last bit."""


def birth(series: Series) -> Values:
    """When the process and its series began, by series; empty where the page does not say."""
    return _values(series, lambda name: name == START or (name.startswith("vllm:") and name.endswith("_created")))


def counts(series: Series) -> Values:
    """vLLM's counters, which never fall within a process."""
    return _values(series, lambda name: name.startswith("vllm:") and name.endswith(COUNTING))


def same_process(before: Values, after: Values) -> bool:
    """Whether two births may be one process's: a series that came later says nothing."""
    return all(before[key] == after[key] for key in before.keys() & after.keys())


def is_known(one: Values, other: Values) -> bool:
    """Whether two births have anything to compare."""
    return bool(one.keys() & other.keys())


def fallen(before: Values, after: Values) -> str | None:
    """The name of a counter that is smaller than before, if there is one."""
    return next((key[0] for key in before if after.get(key, before[key]) < before[key]), None)


def _values(series: Series, wanted: Callable[[str], bool]) -> Values:
    return {
        (name, tuple(sorted(labels.items()))): value
        for name, found in series.items()
        if wanted(name)
        for labels, value in found
    }
