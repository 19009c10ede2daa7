"""What one check says, in one shape whatever it measured. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from components.check.settings import Fault
from components.check.words import way_out
from components.diagnosis.diagnose import Clue
from components.release.verdict import Finding, Outcome, PairResult, Verdict
from components.topology.evidence import Topology

Basis = Literal["geometry", "consistency", "counters", "content", "log", "nothing"]
"""What the answer stands on: bytes held against the model's geometry, or against each other at two prompt lengths;
counters without a judgement on bytes; only tokens and answers; the engines' own log; or nothing."""
EXIT_CODES: dict[Outcome, int] = {"pass": 0, "fail": 1, "inconclusive": 2}


@dataclass(frozen=True)
class Result:
    """`message` says what was found and wanted, `fix` the way out. Times in milliseconds."""

    outcome: Outcome
    cause: str
    message: str
    fix: str
    limit_ms: float
    basis: Basis = "nothing"
    connector: str | None = None
    model: str | None = None
    pairs: tuple[PairResult, ...] = ()
    kv_transfer_ms: float | None = None
    kv_transfer_aged_ms: float | None = None
    aged_is_estimated: bool = False
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    clues: tuple[Clue, ...] = ()
    """What the engines' logs say of the cause, where they can be read."""
    topology: Topology | None = None
    """How the GPUs are joined and what moved the blocks, as far as it is known; None where nothing was measured."""

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.outcome]

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"topology": self.topology.to_json() if self.topology else None}


def unmeasured(faults: list[Fault], limit_ms: float) -> Result:
    """Nothing was measured: never a pass, and nobody's fault but the faults'."""
    message = "could not measure: " + "; ".join(fault.message for fault in faults)
    return Result("inconclusive", faults[0].kind, message, "", limit_ms, faults=tuple(faults))


def judged(verdict: Verdict, limit_ms: float, **more: Any) -> Result:
    """The gate's verdict, with ways out for a deployment that is not ours."""
    return Result(
        verdict.outcome, verdict.cause, verdict.message, way_out(verdict.cause, verdict.fix), limit_ms,
        pairs=verdict.pairs, kv_transfer_ms=verdict.kv_transfer_ms, kv_transfer_aged_ms=verdict.kv_transfer_aged_ms,
        aged_is_estimated=verdict.aged_is_estimated, **more,
    )  # fmt: skip


def overruled(verdict: Verdict, finding: Finding) -> Verdict:
    """A verdict that another finding takes the place of; its figures stay."""
    return Verdict(finding.outcome, finding.cause, finding.message, finding.fix, verdict.pairs, verdict.kv_transfer_ms,
                   verdict.kv_transfer_aged_ms, verdict.aged_is_estimated)  # fmt: skip
