"""How close the gate's figure is to bytes / rate on links of known speed.

Throttles the link of the live release's decode pod to each rate in turn, runs the gate's own probe
on the running pair, and compares the measured mean with the time that the bytes need at that rate.
Run it on a deployed local stack: `python -m benchmarks.gate_accuracy`. Ends with one line of JSON.
"""

from __future__ import annotations

import json
from typing import Any

from components.release import measure
from components.release.cluster import Access, Cluster
from components.release.evidence import figures, read_evidence
from components.release.ledger import read_ledger
from components.release.measure import ProbeSettings
from components.release.probe_job import run_probe
from tools.cache import cache
from tools.deployment import Deployment
from tools.localcluster import link

RATES_MBIT_PER_S = (200, 400, 800)
TOLERANCE = 0.10
SAMPLES = 5
PROMPT_TOKENS = 1984


def main() -> None:
    deployment = Deployment()
    live = read_ledger(deployment.outputs()["ledger"]).live
    if live is None:
        raise SystemExit("no live release: run `make up` first")
    access = Access(str(cache().layout().kubeconfig), None, deployment.namespace)
    cluster = Cluster(access)
    rows = [_measure(cluster, live.release, rate) for rate in RATES_MBIT_PER_S]
    print(json.dumps({"benchmark": "gate_accuracy", "tolerance": TOLERANCE, "rates": rows}))


def _measure(cluster: Cluster, release: Any, rate_mbit_per_s: int) -> dict[str, Any]:
    pods = cluster.pods(release.id)
    decode = next(pod for pod in pods if pod.tier == "decode")
    probe = ProbeSettings(SAMPLES, PROMPT_TOKENS, 4, "off", 60, 300)
    plan = measure.probe_plan(pods, release.expectation, probe) | {"router": None}
    assert decode.ip is not None
    link.throttle(decode.ip, rate_mbit_per_s)
    try:
        pod_spec = measure.probe_pod(release.pods["decode"])
        found = run_probe(cluster, release.id, pod_spec, plan, 300)
    finally:
        link.restore(decode.ip)
    measured = figures(read_evidence(found).pairs[0].fresh)
    if measured is None:
        raise SystemExit(f"nothing was measured at {rate_mbit_per_s} Mbit/s")
    expected_ms = measured.mean_bytes * 8 / rate_mbit_per_s / 1000
    error = measured.mean_ms / expected_ms - 1
    print(
        f"{rate_mbit_per_s} Mbit/s: measured {measured.mean_ms:.1f} ms, bytes/rate {expected_ms:.1f} ms, {error:+.1%}"
    )
    return {
        "mbit_per_s": rate_mbit_per_s,
        "bytes": measured.mean_bytes,
        "measured_ms": round(measured.mean_ms, 1),
        "expected_ms": round(expected_ms, 1),
        "error": round(error, 3),
        "within_tolerance": abs(error) <= TOLERANCE,
    }


if __name__ == "__main__":
    main()
