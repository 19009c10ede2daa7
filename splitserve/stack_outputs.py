"""What a consumer gets of a stack. Times in milliseconds; None where the live release was not measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from splitserve.fault import OutputsError

Outcome = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True)
class SecretReference:
    """Where the clients' API keys are: a key of a Kubernetes Secret, one API key a line."""

    namespace: str
    name: str
    key: str


@dataclass(frozen=True)
class Live:
    """The release that has the traffic.

    It passed its gate, or it would not be live. `verdict` is another one than `pass` only if the last update
    checked this very release again and found it so.
    """

    release: str
    note: str
    verdict: Outcome
    kv_transfer_ms: float | None
    kv_transfer_aged_ms: float | None
    aged_is_estimated: bool


@dataclass(frozen=True)
class LastUpdate:
    """What the last `pulumi up` judged; `release` is another one than the live one if it was not let in."""

    release: str
    verdict: Outcome
    cause: str
    message: str
    fix: str


@dataclass(frozen=True)
class Cluster:
    """On AWS: the EKS cluster, and the ids of its nodes' and their EFA interfaces' security groups."""

    name: str
    region: str
    security_group: str
    efa_security_group: str


@dataclass(frozen=True)
class Outputs:
    """A stack's outputs: docs/reference/outputs.md says what each means.

    `ca` is PEM, None where clients need none. `gate` has the verdict and the evidence of the last gate, which
    after a failed update is the refused release's; it and `ledger` are plain data.
    """

    stack: str
    contract: int
    endpoint: str
    ca: str | None
    model: str
    api_key_secret: SecretReference | None
    live: Live
    last_update: LastUpdate
    ledger: Mapping[str, Any]
    gate: Mapping[str, Any]
    cluster: Cluster | None

    def require_passed(self) -> Outputs:
        """These outputs, if the last update passed. Raises OutputsError if it did not.

        The live release passed its gate either way. This is for consumers that follow only stacks whose
        configuration is what serves.
        """
        last = self.last_update
        if last.verdict == "pass":
            return self
        live = f"release {self.live.release} is live" + (" still" if last.release != self.live.release else "")
        raise OutputsError(
            "not passed",
            self.stack,
            f"the last update judged release {last.release}: {last.verdict}, {last.cause}: {last.message}; {live}",
            "an update whose release passed its gate",
            f"{last.fix or 'see what `pulumi up` printed there'}; or use what is live, without `require_passed`",
        )
