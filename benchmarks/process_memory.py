"""Time and peak memory of a command and of everything that it starts, memory by kind of process.

Resident memory summed over processes: pages that two of them share, as a library's code, count twice.
"""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PERIOD_S = 0.05
MB = 1_000_000
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
STATE, PARENT, SESSION, RESIDENT_PAGES = 0, 1, 3, 21
"""Places in /proc/PID/stat after the command's name: fields 3, 4, 6 and 24 of proc_pid_stat(5)."""
TOTAL = "total"


@dataclass(frozen=True)
class Run:
    """A command that ended. `peak_mb` has each kind's own peak, and that of all at one moment as `total`.

    `cpu_seconds` is what it and all that it waited for used: it varies less with the machine's load.
    """

    code: int
    text: str
    seconds: float
    cpu_seconds: float
    peak_mb: dict[str, float]


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str], kinds: Mapping[str, str]) -> Run:
    """Run it to its end. `kinds` names processes by a part of their command line, first match first."""
    with tempfile.TemporaryFile("w+") as output:
        started, used = time.monotonic(), _cpu_seconds()
        # Pulumi gives each plugin a process group of its own; all of them stay in the session.
        process = subprocess.Popen(
            command, cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        with _Sampler(process.pid, kinds) as sampler:
            code = process.wait()
            seconds = time.monotonic() - started
        output.seek(0)
        peaks = {kind: peak / MB for kind, peak in sampler.peaks.items()}
        return Run(code, output.read(), seconds, _cpu_seconds() - used, peaks)


def _cpu_seconds() -> float:
    """Of this process's children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class _Sampler:
    """Samples a session's memory in a thread while its context lasts."""

    def __init__(self, session: int, kinds: Mapping[str, str]) -> None:
        self._session, self._kinds = session, kinds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peaks: dict[str, int] = {}

    def __enter__(self) -> _Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(PERIOD_S):
            now = resident(self._session, self._kinds)
            now[TOTAL] = now.total()
            for kind, size in now.items():
                self.peaks[kind] = max(self.peaks.get(kind, 0), size)


@dataclass(frozen=True)
class _Process:
    parent: int
    command_line: str
    size: int


def resident(session: int, kinds: Mapping[str, str]) -> Counter[str]:
    """Bytes by kind of process, now."""
    found: Counter[str] = Counter()
    members = _members(session)
    for one in members.values():
        parent = members.get(one.parent)
        # Between its fork and its exec a process is its parent's memory once more.
        if parent is None or parent.command_line != one.command_line:
            found[kind_of(one.command_line, kinds)] += one.size
    return found


def _members(session: int) -> dict[int, _Process]:
    found = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            if int(fields[SESSION]) == session and fields[STATE] != "Z":
                line = Path(entry.path, "cmdline").read_bytes().replace(b"\0", b" ").decode()
                size = int(fields[RESIDENT_PAGES]) * PAGE_BYTES
                found[int(entry.name)] = _Process(int(fields[PARENT]), line, size)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
    return found


def kind_of(command_line: str, kinds: Mapping[str, str]) -> str:
    return next((kind for part, kind in kinds.items() if part in command_line), "other")
