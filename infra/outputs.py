"""The outputs of a serving stack, by the contract that other teams' programs read (splitserve/contract.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from components.release.switch import ReleaseSwitch
from components.serving.gateway import KEY
from splitserve import contract, names


@dataclass(frozen=True)
class Configured:
    """What of the configuration outputs tell: the release that this update judges, its model, the namespace.

    `ca` is the certificate authority (PEM) that clients of the endpoint have to trust, None where there is none.
    """

    release: str
    model: str
    namespace: str
    ca: str | None = None


def exported(configured: Configured, switch: ReleaseSwitch) -> dict[str, Any]:
    """The stack's outputs by name."""
    facts = pulumi.Output.all(switch.ledger, switch.verdict).apply(lambda both: of_update(configured, *both))
    settled = {name: facts.apply(lambda f, name=name: f[name]) for name in OF_UPDATE}
    return {
        names.CONTRACT: contract.VERSION,
        names.ENDPOINT: switch.endpoint,
        # Empty, not null: after a failed update the engine keeps an output's last value for a null.
        names.CA: configured.ca or "",
        names.LEDGER: switch.ledger,
        names.GATE: {"verdict": switch.gate.verdict, "evidence": switch.gate.evidence},
        **settled,
    }


OF_UPDATE = (
    names.MODEL, names.API_KEY_SECRET, names.LIVE, names.KV_TRANSFER_MS, names.KV_TRANSFER_AGED_MS, names.VERDICT,
    names.LAST_UPDATE,
)  # fmt: skip
"""What follows from an update's ledger and verdict."""


def of_update(configured: Configured, ledger: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Model, key and times are the live release's: what clients are answered by, whatever was refused since."""
    proved = ledger.get("live") or {}
    release, measured = proved.get("release") or {}, proved.get("measured") or {}
    expected = release.get("expectation") or {}
    secret = expected.get("api_key_secret")
    return {
        names.MODEL: expected.get("model") or configured.model,
        names.API_KEY_SECRET: {"namespace": configured.namespace, "name": secret, "key": KEY} if secret else {},
        names.LIVE: release.get("id"),
        names.KV_TRANSFER_MS: measured.get("kv_transfer_ms"),
        names.KV_TRANSFER_AGED_MS: measured.get("kv_transfer_aged_ms"),
        names.VERDICT: verdict["outcome"],
        names.LAST_UPDATE: {
            "release": configured.release,
            "verdict": verdict["outcome"],
            **{key: verdict[key] for key in ("cause", "message", "fix")},
        },
    }
