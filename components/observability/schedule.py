"""Cron schedules as Kubernetes' CronJob reads them: whether one can happen at all, and its longest pause. Pure.

Five fields, or a word such as `@hourly` (https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/, by
robfig/cron v3 `ParseStandard`). A time zone has a field of its own there and is refused in the schedule.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise

MACROS = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name}
DAYS = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
PART = re.compile(r"(\*|\?|[a-z0-9]+)(?:-([a-z0-9]+))?(?:/([0-9]+))?")
YEAR = date(2024, 1, 1)
"""Eight years from a leap year on have every date together with every day of the week that a schedule can name."""
YEARS = 8
MINUTES_A_DAY = 24 * 60


class ImpossibleSchedule(ValueError):
    """Not a schedule, or one that never comes; the message says which field, what is there and what may be."""


@dataclass(frozen=True)
class Field:
    name: str
    least: int
    most: int
    words: Mapping[str, int]


FIELDS = (
    Field("minute", 0, 59, {}),
    Field("hour", 0, 23, {}),
    Field("day of the month", 1, 31, {}),
    Field("month", 1, 12, MONTHS),
    Field("day of the week", 0, 6, DAYS),
)


@dataclass(frozen=True)
class Schedule:
    """What each field admits. `any_day`, `any_weekday`: the field is a star, so that the other decides alone; where
    neither is, either is enough."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    def on(self, day: date) -> bool:
        by_date, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        fits = by_date and by_week if self.any_day or self.any_weekday else by_date or by_week
        return day.month in self.months and fits

    @property
    def times(self) -> list[int]:
        """Minutes since midnight, in order."""
        return sorted(hour * 60 + minute for hour in self.hours for minute in self.minutes)


def parse(text: str) -> Schedule:
    """Raises ImpossibleSchedule."""
    written = MACROS.get(text, text).lower().split()
    if "=" in text.split(" ")[0]:
        raise ImpossibleSchedule(f"found a time zone in {text!r}, wanted five fields: the cluster's zone counts")
    if len(written) != len(FIELDS):
        raise ImpossibleSchedule(
            f"found {len(written)} field(s), wanted 5 (minute, hour, day of the month, month, day of the week) "
            f"or one of {', '.join(MACROS)}"
        )
    sets = [_admitted(field, part) for field, part in zip(FIELDS, written, strict=True)]
    schedule = Schedule(*sets, any_day=_any(written[2]), any_weekday=_any(written[4]))
    if not any(schedule.on(day) for day in _days()):
        raise ImpossibleSchedule(f"found {text!r}, which never comes: no month of it has such a day")
    return schedule


def longest_pause_s(schedule: Schedule) -> int:
    """The longest time between two runs, in seconds."""
    times = schedule.times
    inside = max((later - sooner for sooner, later in pairwise(times)), default=0)
    runs = [index for index, day in enumerate(_days()) if schedule.on(day)]
    if len(runs) < 2:
        return YEARS * 366 * MINUTES_A_DAY * 60
    days = max(later - sooner for sooner, later in pairwise(runs))
    over_night = days * MINUTES_A_DAY - times[-1] + times[0]
    return max(inside, over_night) * 60


def _days() -> Iterator[date]:
    return (YEAR + timedelta(days=number) for number in range(YEARS * 366))


def _any(text: str) -> bool:
    return any(part in ("*", "?", "*/1", "?/1") for part in text.split(","))


def _admitted(field: Field, text: str) -> frozenset[int]:
    return frozenset(number for part in text.split(",") for number in _part(field, part))


def _part(field: Field, text: str) -> range:
    match = PART.fullmatch(text)
    if not match:
        raise ImpossibleSchedule(f"{field.name}: found {text!r}, wanted a number, a range, `*`, with /STEP if need be")
    first, last, step = match.groups()
    if step == "0" or (first in "*?" and last):
        raise ImpossibleSchedule(f"{field.name}: found {text!r}, wanted a step of 1 or more, and ranges of numbers")
    if first in "*?":
        low, high = field.least, field.most
    else:
        low = _number(field, first)
        high = _number(field, last) if last else field.most if step else low
    if low > high:
        raise ImpossibleSchedule(f"{field.name}: found {text!r}, wanted a range from the smaller to the greater")
    return range(low, high + 1, int(step or 1))


def _number(field: Field, text: str) -> int:
    number = field.words.get(text, int(text) if text.isdigit() else -1)
    if not field.least <= number <= field.most:
        raise ImpossibleSchedule(f"{field.name}: found {text!r}, wanted {field.least} to {field.most}")
    return number
