"""The idle probe: when nobody uses the live release, send it a few transfers as the gate does, and judge them.

So vLLM's own series always have samples of late, whatever the hour. Runs as a CronJob on the router's image, on the
standard library alone, and changes nothing. The gate's record of the release says what is expected of it; the cache
of a live engine is judged as it is, without ageing it.

Prints the evidence and, as its last line, the verdict. Exit code 0: pass, or clients use the release; 1: fail;
2: it could not measure.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from components.observability.idle_probe.cluster import CannotTell, Cluster
from components.observability.idle_probe.quiet import busy
from components.release.evidence import Evidence, read_evidence
from components.release.expectation import Expectation
from components.release.limits import limits_of
from components.release.probe import ROUTER_KEY_VARIABLE, CannotMeasure, Client, probe
from components.release.probe_plan import probe_plan, probe_settings
from components.release.verdict import Verdict, judge
from components.serving.spec import ROUTER

EXIT_CODES = {"pass": 0, "fail": 1, "inconclusive": 2}
"""As those of `splitserve check`."""
WORDS = Path("/dev/termination-log")
"""What is written there, Kubernetes shows as the container's last message (`kubectl describe pod`)."""
BUSY = Verdict("pass", "busy", "clients use the release: their own transfers are the samples", "")


@dataclass(frozen=True)
class Settings:
    """`limit_ms` is that of the stack file now, which may be another than when the release passed."""

    namespace: str
    service: str
    samples: int
    quiet_s: float
    limit_ms: float


def parse(arguments: Sequence[str]) -> Settings:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--service", required=True)
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--quiet-s", type=float, required=True)
    parser.add_argument("--limit-ms", type=float, required=True)
    return Settings(**vars(parser.parse_args(arguments)))


def look(settings: Settings, cluster: Cluster, client: Client | None = None) -> tuple[Verdict, Evidence | None]:
    """The verdict on the live release now, and the evidence for it where something was measured."""
    try:
        release = cluster.live_release(settings.service)
        record = cluster.record(release)
        expectation = Expectation.from_json(record["release"]["expectation"])
        gate = record["gate"] | {"limitMs": settings.limit_ms, "samples": settings.samples, "age": "off"}
        pods = [pod for pod in cluster.pods(release) if pod.tier in ("prefill", "decode", ROUTER)]
        plan = probe_plan(pods, expectation, probe_settings(gate))
        client = client or Client(plan["request_limit_s"], router_key())
        engines = list(dict.fromkeys(pod["url"] for pair in plan["pairs"] for pod in pair))
        if busy(client, engines, settings.quiet_s):
            return BUSY, None
        evidence = as_aged(read_evidence(probe(plan, client)))
    except (CannotTell, CannotMeasure) as error:
        return unmeasured(str(error)), None
    # The render and encoder tiers were not asked: they move no KV.
    limits = replace(limits_of(expectation, gate), render=False, encoder=False)
    return judge(evidence, limits), evidence


NOTHING = Expectation("prefill-decode", "", 0, 0, 1, 0, 0, "bfloat16", 1, [])
"""In place of an expectation, where there is nothing to judge."""


def unmeasured(why: str) -> Verdict:
    return judge(Evidence(unmeasured=why), limits_of(NOTHING, {"limitMs": 0}))


def as_aged(evidence: Evidence) -> Evidence:
    """A live engine's cache is as old as its traffic made it: nothing about it is to be estimated."""
    return replace(evidence, pairs=[replace(pair, aged=pair.fresh) for pair in evidence.pairs])


def router_key() -> str:
    """The first of the keys, one a line, that open the release's own router."""
    return os.environ.get(ROUTER_KEY_VARIABLE, "").partition("\n")[0].strip()


def said(verdict: Verdict) -> dict[str, Any]:
    kept = ("outcome", "cause", "message", "fix", "kv_transfer_ms")
    return {key: value for key, value in verdict.to_json().items() if key in kept}


def main() -> None:
    settings = parse(sys.argv[1:])
    try:
        verdict, evidence = look(settings, Cluster.of_pod(settings.namespace))
    except Exception as error:  # the edge: Python's own exit code for a traceback is that of a failed release
        traceback.print_exc()
        verdict, evidence = unmeasured(f"{type(error).__name__}: {error}"), None
    if evidence:
        print("EVIDENCE " + json.dumps(evidence.to_json()))
    print("VERDICT " + json.dumps(said(verdict)), flush=True)
    if WORDS.exists():
        WORDS.write_text(f"{verdict.outcome}: {verdict.message}" + (f"; {verdict.fix}" if verdict.fix else ""))
    sys.exit(EXIT_CODES[verdict.outcome])
