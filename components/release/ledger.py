"""The ledger: which release is live, which was refused and why, and what one `pulumi up` changes.

Pure. It is a stack output, so it is saved with the update that made it true; the next update reads
it back. "Live" means that the release passed its gate, never that it was merely applied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from components.release.release import Release
from components.release.verdict import Verdict

VERSION = 1
HISTORY_LENGTH = 20
TIMES = ("kv_transfer_ms", "kv_transfer_aged_ms")
ESTIMATED = "aged_is_estimated"


class LedgerTooNew(ValueError):
    """The stack was last updated by a newer version of splitserve."""


class Quarantined(ValueError):
    """The configured release was refused by its gate before."""


@dataclass(frozen=True)
class Proved:
    """A release that passed, with the gate settings under which it did.

    `measured` is {kv_transfer_ms, kv_transfer_aged_ms, aged_is_estimated} of that gate, without what it did not
    measure; empty in the ledgers of earlier versions.
    """

    release: Release
    gate: dict[str, Any]
    measured: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"release": self.release.to_json(), "gate": self.gate, "measured": self.measured}


@dataclass(frozen=True)
class Ledger:
    """`candidate` is the configured release while it has not passed; `quarantined` maps the id of a
    refused release to {cause, fix, retry, gate}."""

    live: Proved | None = None
    candidate: str | None = None
    quarantined: dict[str, dict[str, Any]] = field(default_factory=dict)
    history: list[dict[str, str]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            **asdict(self),
            "live": self.live.to_json() if self.live else None,
        }


def read_ledger(content: Any) -> Ledger:
    """The ledger from a stack output; an empty one when there is none yet.

    Raises LedgerTooNew when a newer version wrote it: guessing what it means could take traffic
    away from a live release.
    """
    if not content:
        return Ledger()
    if int(content["version"]) > VERSION:
        raise LedgerTooNew(
            f"the stack's ledger has version {int(content['version'])}; this splitserve reads up to "
            f"{VERSION}. Update splitserve to the version that last ran `pulumi up` on this stack"
        )
    live = content.get("live")
    return Ledger(
        live=_proved(live) if live else None,
        candidate=content.get("candidate"),
        quarantined=dict(content.get("quarantined", {})),
        history=list(content.get("history", [])),
    )


@dataclass(frozen=True)
class Plan:
    """What one update declares: the live release as proved, and the candidate if there is one."""

    live: Proved | None
    candidate: Release | None


def plan_update(ledger: Ledger, configured: Release, retry: int) -> Plan:
    """The configured release is the live one, or it is a candidate.

    Raises Quarantined when it was refused in an earlier configuration and `retry` (gate.retry) was
    not raised since. While it stays configured its gate is in the state and answers the same again.
    """
    if ledger.live and ledger.live.release.id == configured.id:
        return Plan(ledger.live, None)
    refused = ledger.quarantined.get(configured.id)
    if refused and ledger.candidate != configured.id and retry <= int(refused["retry"]):
        raise Quarantined(
            f"release {configured.id} was refused before: {refused['cause']}\n"
            f"  fix:  {refused['fix']}\n"
            f"  next: change the configuration, or set gate.retry to {int(refused['retry']) + 1} to "
            "measure it once more; nothing was changed"
        )
    return Plan(ledger.live, configured)


def answered(ledger: Ledger, release: Release, gate: dict[str, Any]) -> bool:
    """Whether the gate has refused this release under these settings: it is not measured again then."""
    refused = ledger.quarantined.get(release.id)
    return bool(refused and refused.get("gate", gate) == gate and gate.get("retry", 0) <= refused["retry"])


def advance(ledger: Ledger, plan: Plan, verdict: Verdict | None, gate: dict[str, Any]) -> Ledger:
    """The ledger after an update. `verdict` is None when nothing was judged; without a candidate it is the live
    release's own."""
    if plan.candidate is None or verdict is None:
        live = ledger.live
        if live and verdict and not live.measured:
            live = replace(live, measured=_measured(asdict(verdict)))
        return replace(ledger, live=live, candidate=None)
    identity = plan.candidate.id
    entry = {"id": identity, "note": plan.candidate.note, "outcome": verdict.outcome}
    history = ledger.history
    if not history or history[-1] != entry:
        history = [*history, entry][-HISTORY_LENGTH:]
    if verdict.outcome == "pass":
        return Ledger(
            live=Proved(plan.candidate, gate, _measured(asdict(verdict))),
            quarantined={k: v for k, v in ledger.quarantined.items() if k != identity},
            history=history,
        )
    if verdict.outcome == "fail":
        why = {"cause": verdict.cause, "fix": verdict.fix, "retry": gate.get("retry", 0), "gate": gate}
        quarantined = {**ledger.quarantined, identity: why}
        return replace(ledger, candidate=identity, quarantined=quarantined, history=history)
    return replace(ledger, candidate=identity, history=history)


def recover(ledger: Ledger, selected: str | None, evidence: dict[str, Any] | None) -> Ledger:
    """Correct the ledger after an update that was killed while it moved traffic.

    `selected` is the release that the front door selects now; `evidence` is that release's record
    in the cluster. A release that passed and has the traffic is live, whatever the stack's last
    saved output says: declaring the old one would take its replicas away.
    """
    if evidence is None or not selected or (ledger.live and ledger.live.release.id == selected):
        return ledger
    if evidence.get("outcome") != "pass":
        return ledger
    live = replace(_proved(evidence), measured=_measured(evidence.get("verdict") or {}))
    return replace(ledger, live=live, candidate=None)


def _proved(content: dict[str, Any]) -> Proved:
    return Proved(Release.from_json(content["release"]), dict(content["gate"]), dict(content.get("measured") or {}))


def _measured(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """The times of a verdict, for those who ask of the live release when a later gate has judged another."""
    times = {key: verdict[key] for key in TIMES if verdict.get(key) is not None}
    return {**times, ESTIMATED: bool(verdict.get(ESTIMATED))} if times else {}
