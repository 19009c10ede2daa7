"""What a serving stack promises to export: the contract, its version, and what each output means.

`docs/reference/outputs.md` is made from this (`splitserve outputs`), `splitserve/parse.py` reads it, and
`infra/outputs.py` writes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from splitserve import names

VERSION = 1
"""Another one when an output is renamed, goes, or means something else; a new output alone changes nothing."""
SECRET = "[secret]"
"""What `pulumi stack output` prints in place of a secret. No output of the contract is one."""


@dataclass(frozen=True)
class Promise:
    """One output, or a field of one: `cluster.name`. `there` says when it is there."""

    name: str
    form: str
    there: str
    meaning: str


ALWAYS = "always"
LIVE = "once a release is live"
ON_AWS = "on AWS"

PROMISES = (
    Promise(names.CONTRACT, "number", ALWAYS, f"the version of this contract, {VERSION}"),
    Promise(names.ENDPOINT, "text", ALWAYS, "the front door's address, `http://` or `https://`, without a path"),
    Promise(names.CA, "text", ALWAYS, "the certificate authority (PEM) that clients of the endpoint have to trust; empty "
            "where there is none, or clients know it already"),
    Promise(names.MODEL, "text", ALWAYS, "the name of the live release's model, for `model` of a request; of the "
            "configured one while none is live"),
    Promise(names.API_KEY_SECRET, "object", ALWAYS, "where the clients' keys are, never a key; empty where the live "
            "release asks for none"),
    Promise(f"{names.API_KEY_SECRET}.namespace", "text", "with keys", "the Secret's namespace"),
    Promise(f"{names.API_KEY_SECRET}.name", "text", "with keys", "the Secret's name"),
    Promise(f"{names.API_KEY_SECRET}.key", "text", "with keys", "the key in the Secret; one API key a line"),
    Promise(names.LIVE, "text", LIVE, "the id of the release that has the traffic: it passed its gate"),
    Promise(names.KV_TRANSFER_MS, "number", "where the live release was measured", "its mean KV transfer with fresh "
            "caches, in ms, as its gate measured it"),
    Promise(names.KV_TRANSFER_AGED_MS, "number", "where the live release was measured", "the same with aged caches: the "
            "judged figure"),
    Promise(names.VERDICT, "text", ALWAYS, "of the last update: `pass`, `fail` or `inconclusive`"),
    Promise(names.LAST_UPDATE, "object", ALWAYS, "what the last update judged"),
    Promise(f"{names.LAST_UPDATE}.release", "text", ALWAYS, "the id of the configured release; another one than "
            "`live` if it was not let in"),
    Promise(f"{names.LAST_UPDATE}.verdict", "text", ALWAYS, "as `verdict`"),
    Promise(f"{names.LAST_UPDATE}.cause", "text", ALWAYS, "one word of [verdicts](verdicts.md)"),
    Promise(f"{names.LAST_UPDATE}.message", "text", ALWAYS, "what was found and wanted"),
    Promise(f"{names.LAST_UPDATE}.fix", "text", ALWAYS, "what to do; empty after a pass"),
    Promise(names.LEDGER, "object", ALWAYS, "which release is live, which was refused and why, and the last ones; its "
            "own `version` tells its form"),
    Promise(f"{names.LEDGER}.live.release.id", "text", LIVE, "as `live`"),
    Promise(f"{names.LEDGER}.live.release.note", "text", LIVE, "the setting `note` of the live release; may be empty"),
    Promise(f"{names.LEDGER}.live.measured", "object", "where the live release was measured", "`kv_transfer_ms`, "
            "`kv_transfer_aged_ms`, `aged_is_estimated`"),
    Promise(names.GATE, "object", ALWAYS, "the last gate that ran"),
    Promise(f"{names.GATE}.verdict", "object", ALWAYS, "its outcome, cause, message, fix, and figures of each pair"),
    Promise(f"{names.GATE}.evidence", "object", ALWAYS, "its samples, and what else it saw"),
    Promise(names.CLUSTER, "object", ON_AWS, "the cluster, for other stacks that serve on it; its own `contract` tells "
            "its form"),
    Promise(f"{names.CLUSTER}.name", "text", ON_AWS, "the cluster's name"),
    Promise(f"{names.CLUSTER}.region", "text", ON_AWS, "its region"),
    Promise(f"{names.CLUSTER}.securityGroup", "text", ON_AWS, "the id of the nodes' security group"),
    Promise(f"{names.CLUSTER}.efaSecurityGroup", "text", ON_AWS, "the id of the EFA interfaces' security group"),
)  # fmt: skip
