"""One parser for a stack's outputs, whichever way they came: a stack reference or `pulumi stack output --json`.

Free of Pulumi. Two habits of the engine shape it. A stack reference leaves out what is null. And after a
failed update the engine keeps an output's last value where the new one is null: so whatever may be null is
read from within an object, which is always written as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast, get_args

from splitserve import names
from splitserve.contract import VERSION
from splitserve.fault import OutputsError
from splitserve.fields import Fields, told
from splitserve.stack_outputs import Cluster, LastUpdate, Live, Outcome, Outputs, SecretReference

CHECK_NAME = (
    "check its name (organization/splitserve/STACK; without Pulumi Cloud the organization is `organization`), that "
    "PULUMI_BACKEND_URL is the backend that it is in, and that you may read it (`pulumi stack ls --all`)"
)


def parse_json(text: str, where: str) -> Outputs:
    """What `pulumi stack output --json` printed. Raises OutputsError, as `parse` does."""
    try:
        values = json.loads(text)
    except ValueError as error:
        found = f"no JSON ({error}): {told(text)}"
        raise OutputsError("unreadable", where, found, "what `pulumi stack output --json` prints", CHECK_NAME) from None
    return parse(values, where)


def parse(values: object, where: str) -> Outputs:
    """The outputs of the stack `where`, from plain data by output name.

    Raises OutputsError for a stack that is not up or serves nothing, for another contract, for what is not as
    the contract has it (all of it in one message), and where no release is live.
    """
    if not isinstance(values, Mapping):
        raise OutputsError("unreadable", where, told(values), "a mapping of outputs", CHECK_NAME)
    outputs = cast(Mapping[str, Any], values)
    _check_contract(outputs, where)
    fields = Fields(outputs)
    last = _last_update(fields.mapping(names.LAST_UPDATE))
    live = _live(fields.mapping(names.LEDGER), last)
    if live is None:
        raise _malformed(fields.faults, where) if fields.faults else _no_live(last, where)
    found = _outputs(fields, where, last, live)
    if fields.faults:
        raise _malformed(fields.faults, where)
    return found


def _check_contract(outputs: Mapping[str, Any], where: str) -> None:
    """Raises OutputsError where these are not the outputs of a serving stack under this contract."""
    wanted = f"outputs of contract {VERSION}, which this reader knows"
    if not outputs:
        raise OutputsError(
            "not up",
            where,
            "no outputs at all: it was never up, or was destroyed",
            wanted,
            f"run `pulumi up --stack {where}`",
        )
    version = outputs.get(names.CONTRACT)
    if version is None:
        raise _without_contract(outputs, where, wanted)
    if isinstance(version, bool) or not isinstance(version, int | float) or version % 1 or version < 1:
        raise _malformed([f"{names.CONTRACT}: {told(version)}, wanted a whole number from 1"], where)
    if version > VERSION:
        raise OutputsError(
            "newer contract", where, f"contract {int(version)}", wanted,
            "use the reader of the version of splitserve that deployed this stack",
        )  # fmt: skip


def _without_contract(outputs: Mapping[str, Any], where: str, wanted: str) -> OutputsError:
    has = ", ".join(sorted(outputs))
    if names.ENDPOINT in outputs and names.LEDGER in outputs:
        return OutputsError(
            "older contract", where, f"a release switch's outputs without `{names.CONTRACT}`: {has}", wanted,
            "run `pulumi up` there with a splitserve of this contract; it changes no release",
        )  # fmt: skip
    if names.CLUSTER in outputs or names.NODE_PLUGINS in outputs:
        return OutputsError(
            "not a serving stack", where, f"a cluster's outputs alone (layers: cluster): {has}", wanted,
            "name the stack that serves on this cluster (layers: serving)",
        )  # fmt: skip
    return OutputsError("not a serving stack", where, f"outputs of something else: {has}", wanted, CHECK_NAME)


def _outputs(fields: Fields, where: str, last: LastUpdate, live: Live) -> Outputs:
    secret, cluster, gate = (
        fields.optional(names.API_KEY_SECRET),
        fields.optional(names.CLUSTER),
        fields.mapping(names.GATE),
    )
    for part in ("verdict", "evidence"):
        gate.mapping(part)
    return Outputs(
        stack=where,
        contract=VERSION,
        endpoint=fields.address(names.ENDPOINT),
        ca=fields.text(names.CA, empty=True) or None,
        model=fields.text(names.MODEL),
        api_key_secret=_secret(secret) if secret else None,
        live=live,
        last_update=last,
        ledger=fields.content[names.LEDGER],
        gate=gate.content,
        cluster=_cluster(cluster) if cluster else None,
    )


def _last_update(fields: Fields) -> LastUpdate:
    return LastUpdate(
        release=fields.text("release"),
        verdict=cast(Outcome, fields.one_of("verdict", get_args(Outcome))),
        cause=fields.text("cause"),
        message=fields.text("message", empty=True),
        fix=fields.text("fix", empty=True),
    )


def _live(ledger: Fields, last: LastUpdate) -> Live | None:
    """The live release of a ledger; None where no release has passed."""
    proved = ledger.optional("live")
    if proved is None:
        return None
    release, measured = proved.mapping("release"), proved.optional("measured") or Fields({})
    identity = release.text("id")
    return Live(
        release=identity,
        note=release.text("note", empty=True),
        verdict=last.verdict if last.release == identity else "pass",
        kv_transfer_ms=measured.milliseconds("kv_transfer_ms"),
        kv_transfer_aged_ms=measured.milliseconds("kv_transfer_aged_ms"),
        aged_is_estimated=measured.content.get("aged_is_estimated") is True,
    )


def _secret(fields: Fields) -> SecretReference:
    return SecretReference(fields.text("namespace"), fields.text("name"), fields.text("key"))


def _cluster(fields: Fields) -> Cluster:
    texts = (fields.text(name) for name in ("name", "region", "securityGroup", "efaSecurityGroup"))
    return Cluster(*texts)


def _malformed(faults: list[str], where: str) -> OutputsError:
    return OutputsError(
        "malformed", where, "; ".join(faults), f"contract {VERSION} (docs/reference/outputs.md)",
        "run `pulumi up` there again, with a splitserve that nobody changed",
    )  # fmt: skip


def _no_live(last: LastUpdate, where: str) -> OutputsError:
    return OutputsError(
        "no live release", where,
        f"the last update judged release {last.release}: {last.verdict}, {last.cause}: {last.message}; none passed before",
        "a release that passed its gate: nothing answers at the endpoint before",
        f"{last.fix or 'see what `pulumi up` printed there'}; then run `pulumi up --stack {where}`",
    )  # fmt: skip
