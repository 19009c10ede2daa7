"""Transfers are judged by what vLLM logs of them; a log without them is never a pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.check.log import read_line, read_log
from tests.unit.check_runs import run

FAILURES = ", Num failed transfers={failed}, Num KV expired reqs={expired}, Num notifs after expiry={late}"
LINE = (
    "(APIServer pid=7) INFO 11-30 12:00:00 [metrics.py:103] KV Transfer metrics: Num successful transfers={n}, "
    "Avg xfer time (ms)={ms}, P90 xfer time (ms)={p90}, Avg post time (ms)=1.1, P90 post time (ms)=1.3, "
    "Avg MB per transfer=160.0, Throughput (MB/s)=13008.1, Avg number of descriptors=2560.0"
)
"""As vllm 0.32 writes it: the log message of kv_connector/v1/metrics.py with the keys of nixl/stats.py, reduce."""


def line(n: int = 4, ms: float = 12.3, p90: float = 14.0, *, failed: int = 0, expired: int = 0, late: int = 0) -> str:
    return LINE.format(n=n, ms=ms, p90=p90) + FAILURES.format(failed=failed, expired=expired, late=late)


OTHER = "INFO 11-30 12:00:00 [loggers.py:1] Engine 000: Avg prompt throughput: 10.0 tokens/s"


def test_intervals_are_weighed_by_their_transfers_and_the_worst_p90_counts() -> None:
    found = read_log("d", [OTHER, line(n=1, ms=10, p90=10), line(n=3, ms=30, p90=50)])
    assert found is not None
    assert (found.intervals, found.transfers, found.mean_ms, found.worst_p90_ms) == (2, 4, 25.0, 50.0)
    assert (found.descriptors, found.failed) == (2560, 0)
    assert found.mb_per_s == pytest.approx(160 * 2**20 / 25e-3 / 1e6)


def test_lines_of_several_connectors_of_json_logs_and_of_older_versions_are_read() -> None:
    inner = "{'Num successful transfers': 2, 'Avg xfer time (ms)': np.float64(3.5), 'P90 xfer time (ms)': 4, 'Avg MB per transfer': 1.5, 'Avg number of descriptors': 8.0, 'Num failed transfers': 0}"
    multi = f"KV Transfer metrics: NixlPullConnector={inner}, OffloadingConnector={{'gpu_to_cpu': 3}}"
    assert [(one.transfers, one.mean_ms) for one in read_line(multi)] == [(2, 3.5)]
    as_json = '{"level": "INFO", "message": "' + line().partition("] ")[2] + '"}'
    assert read_line(as_json) == read_line(line())
    assert read_line(LINE.format(n=1, ms=2, p90=3))[0].failed is None
    mooncake = line().replace("Avg post time (ms)=1.1, P90 post time (ms)=1.3, ", "") + ", Num failed recvs=2"
    assert read_line(mooncake)[0].failed == 2
    assert read_line("KV Transfer metrics: Num succ") == []


@pytest.mark.parametrize(
    ("lines", "code", "cause"),
    [
        ([line()], 0, "log-only"),
        ([OTHER], 2, "no-transfer-logged"),
        ([], 2, "no-transfer-logged"),
        ([line(n=0, ms=0, p90=0, expired=2)], 2, "no-transfer-logged"),
        ([line(), line(n=0, ms=0, p90=0, failed=1)], 1, "failed-transfers"),
        ([line(), line(late=1)], 1, "read-after-expiry"),
        ([line(ms=99.0), line(ms=102.0)], 1, "slow-link"),
        ([line(ms=100.0)], 1, "slow-link"),
    ],
)
def test_a_log_is_judged(lines: list[str], code: int, cause: str) -> None:
    ran = run("--decode-log", "-", "--json", stdin="\n".join(lines) + "\n")
    assert (ran.code, ran.json["cause"]) == (code, cause)
    assert ran.json["fix"] or ran.code == 0


def test_a_pass_by_a_log_says_what_it_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "decode.log"
    path.write_bytes(b"\xff\xfe not text\n" + LINE.format(n=3, ms=5, p90=6).encode())
    ran = run("--decode-log", str(path))
    assert ran.code == 0
    assert "nothing of requests that moved nothing" in ran.out
    assert "167.77 MB and 2560 descriptors" in ran.out
    assert "does not log failed transfers" in ran.out


def test_a_log_that_is_not_there() -> None:
    ran = run("--decode-log", "/no/such/file", "--json")
    assert (ran.code, ran.json["cause"]) == (2, "usage")
    assert "can't be read" in ran.json["message"]
