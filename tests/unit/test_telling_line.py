"""Of a pod's log, the line that says why it ended is shown."""

from __future__ import annotations

import pytest

from components.release.cluster import telling_line

WARNING = "(APIServer pid=1) WARNING 11-29 [system_utils.py:255] this can cause errors like `OSError: [Errno 24]`"


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("starting\nvllm serve: error: unrecognized arguments: --no-such\n", "unrecognized arguments"),
        (f"{WARNING}\nValueError: too small\n{WARNING}\n", "ValueError: too small"),
        (
            "1 validation error\n  Value error, max_num_seqs must be positive\n    For further information",
            "max_num_seqs",
        ),
        ("one\ntwo\n", "two"),
        ("", ""),
    ],
)
def test_the_line_that_states_the_error_is_taken(log: str, line: str) -> None:
    assert line in telling_line(log)
