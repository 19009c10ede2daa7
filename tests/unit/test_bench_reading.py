"""A run's result survives the pod's log, and what is damaged, cut short or of another format is not believed.

RECORDED is what vllm 0.32's `bench serve` (8 requests of 8 tokens, 4 a second) and `in_pod.py` printed when
they ran against a server that refused the third request with 401.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.bench import in_pod
from components.bench.load import Load
from components.bench.reading import Unreadable, read_log, read_run

LOAD = Load(64, 8, 8)
RECORDED = (
    "SPLITSERVE-BENCH "
    "eNpdUttuwzAI/Rc/WxEYfOt/7GmqqmpNtUhpUqXuy6b9++wEsouK1AMcOIDzaS7P5VyGeTIH1yEFTBEdAVAM3pq3+XYf+9JfzCFa"
    "cz0PY4NozTDdn+U09tPDHF4rsxlbAWJHa+Zn+cVLNlmwSX81X8q1tAx04ImQ7AochAZWhzlqNMUVuOz9FuG8gZppYkMZW6/WDMEl"
    "thsI8s8CKHqJZJIIKPC1j9R7FBYIHV1UepIUknKUnF1tsPdIkq8TSg+/a7sNMAsHdTxMWk+7ohO2S7pNykrXoRRw+NHXsUgHAbkK"
    "6DW81iGLBiTeByDdnXXloDK6kiM9NDo9sNajHsDlqAfYwX47/vcuwHSsz/ko56WcynDr26t6JMpdyAAx2upwpRJz3XBzMFCMLA77"
    "EDmvDnbk2IMTh3Nqi25O8B7y7kQMIVfdflnmpUkaY5u9TOdneZ+X4aN++9b8sePXN88ptnY="
    " END-OF-BENCH"
)


def recorded() -> dict[str, Any]:
    return read_log(f"noise\n{RECORDED}\nmore noise\n")


def changed(**changes: Any) -> dict[str, Any]:
    return {**recorded(), **changes}


def test_a_recorded_result_is_read_request_by_request() -> None:
    run = read_run(recorded(), LOAD, 4.0)
    assert [request.error for request in run.requests] == [None, None, "Unauthorized", *[None] * 5]
    first = run.requests[0]
    assert first.ttft_ms == pytest.approx(53.31, abs=0.01)
    assert len(first.gaps_ms) == 7 and all(10 < gap < 11 for gap in first.gaps_ms)
    assert run.duration_s == pytest.approx(2.136, abs=0.001) and run.span_s < 2 and not run.late


def test_a_log_that_ends_within_the_result_is_not_a_result() -> None:
    with pytest.raises(Unreadable, match="ends within"):
        read_log(RECORDED[:200])
    with pytest.raises(Unreadable, match="no result"):
        read_log("Traceback\nValueError: x")


@pytest.mark.parametrize("place", [30, 100, 400])
def test_a_damaged_result_is_refused(place: int) -> None:
    damaged = RECORDED[:place] + ("A" if RECORDED[place] != "A" else "B") + RECORDED[place + 1 :]
    with pytest.raises(Unreadable, match="damaged"):
        read_log(damaged)


@pytest.mark.parametrize("key", ["input_lens", "output_lens", "ttfts", "itls", "start_times", "errors"])
def test_another_format_is_said_to_be_one(key: str) -> None:
    lacking = recorded()
    del lacking[key]
    with pytest.raises(Unreadable, match=f"no list `{key}`.*another format"):
        read_run(lacking, LOAD, 4.0)
    with pytest.raises(Unreadable, match=f"`{key}` has 7 entries; wanted 8"):
        read_run(changed(**{key: recorded()[key][:7]}), LOAD, 4.0)


def test_an_answer_that_broke_off_is_a_failure() -> None:
    result = recorded()
    result["output_lens"][1], result["itls"][1] = 5, result["itls"][1][:4]
    assert read_run(result, LOAD, 4.0).requests[1].error == "the answer broke off after 5 of 8 tokens"


def test_a_server_that_counts_no_tokens_is_counted_by_pieces() -> None:
    """Without usage in the stream and without text vLLM counts one token for an answer."""
    result = recorded()
    result["output_lens"][1] = 1
    assert read_run(result, LOAD, 4.0).requests[1].error is None


def test_a_failure_without_words_is_still_one() -> None:
    result = recorded()
    result["errors"][2] = ""
    assert read_run(result, LOAD, 4.0).requests[2].error == "no answer, and no reason given"


def test_a_generator_that_sends_too_slowly_is_noticed() -> None:
    slow = [start * 3 for start in range(8)]
    assert read_run(changed(start_times=slow), LOAD, 4.0).late
    assert not read_run(changed(start_times=slow), LOAD, 0.3).late


def _in_pod(tmp_path: Path, generator: str) -> subprocess.CompletedProcess[str]:
    """in_pod.py as the pod runs it: its source by -c, isolated, with a stand-in for the generator."""
    source = Path(in_pod.__file__).read_text()
    result = str(tmp_path / "bench.json")
    command = [sys.executable, "-I", "-S", "-c", source, result, sys.executable, "-c", generator, result]
    return subprocess.run(command, capture_output=True, text=True, env={"OPENAI_API_KEY": "# team\n\nfirst\nsecond\n"})


def test_the_pod_prints_what_the_generator_wrote_without_what_nobody_reads(tmp_path: Path) -> None:
    result = {
        **recorded(),
        "generated_texts": ["x" * 10_000] * 8,
        "itls": [[0.0123456789] * 7] * 8,
        "errors": ["", "Traceback\n  File\nTimeoutError: late", *[""] * 6],
    }
    write = f"import json, sys; json.dump({json.dumps(result)}, open(sys.argv[1], 'w')); print('Successful: 8')"
    done = _in_pod(tmp_path, write)
    found = read_log(done.stdout)
    assert done.returncode == 0 and "generated_texts" not in found
    assert found["itls"][0][0] == 0.012346
    assert found["errors"][1] == "TimeoutError: late"


def test_the_pod_ends_as_the_generator_did(tmp_path: Path) -> None:
    done = _in_pod(tmp_path, "raise SystemExit(3)")
    assert done.returncode == 3 and "SPLITSERVE-BENCH" not in done.stdout


def test_of_several_api_keys_the_generator_gets_the_first(tmp_path: Path) -> None:
    done = _in_pod(tmp_path, "import os; print(repr(os.environ['OPENAI_API_KEY'])); raise SystemExit(1)")
    assert done.stdout.strip() == "'first'"
