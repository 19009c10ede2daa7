"""The ledger: which release is live, which was refused and why, and what one `pulumi up` changes.

Pure. It is a stack output, so it is saved with the update that made it true; the next update reads
it back. "Live" means that the release passed its gate, never that it was merely applied.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from components.release.release import Release
from components.release.verdict import Verdict

VERSION = 1
HISTORY_LENGTH = 20


class LedgerTooNew(ValueError):
    """The stack was last updated by a newer version of splitserve."""


@dataclass(frozen=True)
class Proved:
    """A release that passed, with the exact gate settings and attempt under which it did."""

    release: Release
    gate: dict[str, Any]
    attempt: int

    def to_json(self) -> dict[str, Any]:
        return {"release": self.release.to_json(), "gate": self.gate, "attempt": self.attempt}


@dataclass(frozen=True)
class Ledger:
    """`attempts` counts a candidate's inconclusive gates; `quarantined` maps a refused id to why."""

    live: Proved | None = None
    candidate: str | None = None
    attempts: dict[str, int] = field(default_factory=dict)
    quarantined: dict[str, dict[str, str]] = field(default_factory=dict)
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
        attempts={key: int(count) for key, count in content.get("attempts", {}).items()},
        quarantined=dict(content.get("quarantined", {})),
        history=list(content.get("history", [])),
    )


@dataclass(frozen=True)
class Plan:
    """What one update declares: the live release as proved, and the candidate if there is one."""

    live: Proved | None
    candidate: Release | None
    attempt: int


def plan_update(ledger: Ledger, configured: Release) -> Plan:
    """The configured release is the live one, or it is a candidate."""
    if ledger.live and ledger.live.release.id == configured.id:
        return Plan(ledger.live, None, ledger.live.attempt)
    return Plan(ledger.live, configured, ledger.attempts.get(configured.id, 0))


def advance(ledger: Ledger, plan: Plan, verdict: Verdict | None, gate: dict[str, Any]) -> Ledger:
    """The ledger after an update. `verdict` is None when there was no candidate to judge."""
    if plan.candidate is None or verdict is None:
        return replace(ledger, candidate=None)
    identity = plan.candidate.id
    entry = {"id": identity, "note": plan.candidate.note, "outcome": verdict.outcome}
    history = ledger.history
    if not history or history[-1] != entry:
        history = [*history, entry][-HISTORY_LENGTH:]
    if verdict.outcome == "pass":
        return Ledger(
            live=Proved(plan.candidate, gate, plan.attempt),
            quarantined={k: v for k, v in ledger.quarantined.items() if k != identity},
            history=history,
        )
    if verdict.outcome == "fail":
        quarantined = {**ledger.quarantined, identity: {"cause": verdict.cause, "fix": verdict.fix}}
        return replace(ledger, candidate=identity, quarantined=quarantined, history=history)
    attempts = {identity: plan.attempt + 1}
    return replace(ledger, candidate=identity, attempts=attempts, history=history)


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
    return replace(ledger, live=_proved(evidence), candidate=None)


def _proved(content: dict[str, Any]) -> Proved:
    return Proved(
        Release.from_json(content["release"]), dict(content["gate"]), int(content["attempt"])
    )
