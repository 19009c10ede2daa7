"""Steps: done ones are skipped, a failure says where its log is and what to do, order is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from tools.steps import Log, Runner, Step, StepFailed


def runner(tmp_path: Path) -> Runner:
    return Runner(Console(file=(tmp_path / "out").open("w")), tmp_path / "logs")


def test_a_step_that_is_done_is_not_run(tmp_path: Path) -> None:
    runner(tmp_path).run([Step("a", lambda: True, lambda _: pytest.fail("it ran"), "")])


def test_a_failure_names_step_log_and_way_out(tmp_path: Path) -> None:
    step = Step("build it", lambda: False, lambda log: log.command(["sh", "-c", "echo broken; exit 3"]), "mend it")
    with pytest.raises(StepFailed) as caught:
        runner(tmp_path).run([step])
    text = str(caught.value)
    assert "step `build it` failed" in text and "exit code 3" in text
    assert "broken" in text and str(tmp_path / "logs/build-it.log") in text and "mend it" in text


def test_steps_after_a_failed_one_do_not_run(tmp_path: Path) -> None:
    def fail(_: Log) -> None:
        raise StepFailed("no")

    steps = [Step("a", lambda: False, fail, ""), Step("b", lambda: False, lambda _: pytest.fail("it ran"), "")]
    with pytest.raises(StepFailed, match="step `a` failed"):
        runner(tmp_path).run(steps)


def test_a_step_waits_for_one_of_the_other_lane(tmp_path: Path) -> None:
    order: list[str] = []
    first = Step("first", lambda: False, lambda _: order.append("first"), "")
    second = Step("second", lambda: False, lambda _: order.append("second"), "", after=("first",))
    runner(tmp_path).run([second], [first])
    assert order == ["first", "second"]
