"""Run the long steps of a set-up: skip what is done, show progress, explain what failed.

Steps form two lanes that run side by side: `compute` keeps both cores busy (compilers), `fetch`
mostly waits (downloads, unpacking). Each step writes its own log; a failure names step, log and way
out, and stops the lane of its own accord only after the other one has ended its current step.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

TAIL_LINES = 12
SAY_EVERY_S = 30


class StepFailed(Exception):
    """A step failed; the message says which, why, where its log is and what to do."""


@dataclass(frozen=True)
class Step:
    """`done` tells whether there is nothing to do; `run` does it, writing to the log it is given."""

    name: str
    done: Callable[[], bool]
    run: Callable[[Log], None]
    hint: str
    after: tuple[str, ...] = ()
    """Names of steps, of either lane, that must have ended."""


@dataclass
class Log:
    """One step's log file, and a way to run commands into it."""

    path: Path

    def command(self, arguments: Sequence[str | Path], *, cwd: Path | None = None,
                environment: dict[str, str] | None = None) -> None:  # fmt: skip
        """Run a command with its output in the log. Raises StepFailed when it fails."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(f"$ {' '.join(map(str, arguments))}\n".encode())
            file.flush()
            done = subprocess.run(
                [str(argument) for argument in arguments], cwd=cwd, env=environment,
                stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        if done.returncode != 0:
            raise StepFailed(f"`{arguments[0]}` ended with exit code {done.returncode}")

    def tail(self) -> str:
        if not self.path.exists():
            return ""
        return "\n".join(self.path.read_text(errors="replace").splitlines()[-TAIL_LINES:])


@dataclass
class Runner:
    """Runs lanes of steps and keeps the seconds of each."""

    console: Console
    log_folder: Path
    seconds: dict[str, float] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)
    _failed: list[StepFailed] = field(default_factory=list)
    _running: dict[str, float] = field(default_factory=dict)
    _change: threading.Condition = field(default_factory=threading.Condition)

    def run(self, *lanes: Sequence[Step]) -> None:
        """Run every lane to its end. Raises StepFailed with the first failure's whole story."""
        threads = [threading.Thread(target=self._lane, args=(lane,), daemon=True) for lane in lanes]
        for thread in threads:
            thread.start()
        self._watch(threads)
        if self._failed:
            raise self._failed[0]

    def _watch(self, threads: list[threading.Thread]) -> None:
        said = time.monotonic()
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.1)
            if time.monotonic() - said >= SAY_EVERY_S:
                said = time.monotonic()
                running = {name: said - since for name, since in dict(self._running).items()}
                if running:
                    self.console.print("  … " + ", ".join(f"{n} ({s:.0f} s)" for n, s in running.items()), style="dim")

    def _lane(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if not self._may_start(step):
                return
            try:
                self._one(step)
            except Exception as error:
                with self._change:
                    self._failed.append(self._story(step, error))
                    self._change.notify_all()
                return

    def _may_start(self, step: Step) -> bool:
        with self._change:
            self._change.wait_for(lambda: self._failed or self._ended.issuperset(step.after))
            return not self._failed

    def _one(self, step: Step) -> None:
        started = time.monotonic()
        skipped = step.done()
        if not skipped:
            self._running[step.name] = started
            step.run(Log(self._log_path(step)))
            self._running.pop(step.name)
            self.seconds[step.name] = round(time.monotonic() - started, 1)
            self.console.print(f"[green]✓[/green] {step.name}  {self.seconds[step.name]:.0f} s")
        with self._change:
            self._ended.add(step.name)
            self._change.notify_all()

    def _story(self, step: Step, error: Exception) -> StepFailed:
        self._running.pop(step.name, None)
        log = Log(self._log_path(step))
        tail = log.tail()
        shown = f"\n{tail}" if tail else ""
        return StepFailed(f"step `{step.name}` failed: {error}{shown}\n  log:  {log.path}\n  what to do: {step.hint}")

    def _log_path(self, step: Step) -> Path:
        return self.log_folder / (step.name.replace(" ", "-").replace("/", "-") + ".log")
