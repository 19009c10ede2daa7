"""The component that programs in other languages declare: gated serving on a cluster that exists.

Its ledger is in the cluster, beside what it tells of: the stack's outputs are the program's own, not ours.
"""
# No `annotations` from `__future__`: Pulumi's analyzer reads the types themselves.

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict

import pulumi
from pulumi.output import UNKNOWN, contains_unknowns

from components.release.cluster import Cluster, ClusterFault
from components.release.expectation import whole_numbers
from components.release.ledger_record import NAME
from infra import ground, naming
from infra.package.arguments import ServingArgs
from infra.package.hosted import ADMISSION, HOSTED, LEDGER, Hosted
from infra.serving_layer import USERS_FAULTS, declare_update, plan_release, refusal_of
from infra.settings import SettingsError
from infra.site import Site

QUIET = pulumi.ResourceOptions(hide_diffs=["ledger"])
NAMED = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
PLATFORMS = ("existing", "local")


class ApiKeySecret(TypedDict, total=False):
    """Where the clients' API keys are: a key of a Kubernetes Secret, one API key a line."""

    namespace: str
    name: str
    key: str


class LastUpdate(TypedDict):
    """What the last update judged: another release than the live one if it was not let in."""

    release: str
    verdict: str
    cause: str
    message: str
    fix: str


class Serving(pulumi.ComponentResource):
    """vLLM in separate prefill and decode tiers on a cluster that exists. Each release is let in only after its KV
    transfer was measured; a refused one is taken back, and the update fails."""

    contract: pulumi.Output[int]
    """The version of these outputs (docs/reference/outputs.md)."""
    endpoint: pulumi.Output[str]
    """The front door's address, without a path."""
    ca: pulumi.Output[str]
    """The certificate authority (PEM) that clients of the endpoint have to trust; empty where there is none."""
    model: pulumi.Output[str]
    """The name of the live release's model."""
    api_key_secret: pulumi.Output[ApiKeySecret]
    """Where the clients' keys are; empty where the live release asks for none."""
    live: pulumi.Output[str | None]
    """The id of the release that has the traffic: it passed its gate."""
    kv_transfer_ms: pulumi.Output[float | None]
    """The live release's mean KV transfer with fresh caches, in ms, where it was measured."""
    kv_transfer_aged_ms: pulumi.Output[float | None]
    """The same with aged caches: the judged figure."""
    verdict: pulumi.Output[str]
    """Of the last update: `pass`, `fail` or `inconclusive`."""
    last_update: pulumi.Output[LastUpdate]
    """What the last update judged."""
    ledger: pulumi.Output[dict[str, Any]]
    """Which release is live, which was refused and why, and the last ones."""
    gate: pulumi.Output[dict[str, Any]]
    """The last gate that ran: its verdict and evidence."""

    def __init__(
        self,
        name: str,
        args: ServingArgs,  # pyright: ignore[reportInvalidTypeForm]
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(f"{naming.PROJECT}:index:Serving", name, {}, opts)
        self._name = name
        served = pulumi.Output.from_input(args).apply(self._declared, run_with_unknowns=True)
        # By name, so that a preview knows what it can know.
        self.contract, self.endpoint, self.ca, self.model = (
            _named(served, name) for name in ("contract", "endpoint", "ca", "model")
        )
        self.api_key_secret, self.live, self.verdict = (
            _named(served, name) for name in ("apiKeySecret", "live", "verdict")
        )
        self.kv_transfer_ms, self.kv_transfer_aged_ms = (
            _named(served, name) for name in ("kvTransferMs", "kvTransferAgedMs")
        )
        self.last_update, self.ledger, self.gate = (_named(served, name) for name in ("lastUpdate", "ledger", "gate"))
        self.register_outputs({})

    def _declared(self, values: Any) -> Any:
        """The outputs by name; unknown where settings are, as in a preview they may be."""
        if contains_unknowns(values):
            missing = ", ".join(unknown(values)) or "its settings"
            pulumi.log.warn(
                f"{missing}: not known before what it comes from is made; the preview shows nothing of what is served",
                self,
            )
            return pulumi.Output.from_input(UNKNOWN)
        where = f"{pulumi.get_project()}/{pulumi.get_stack()}: Serving {self._name}"
        try:
            return self._declare(whole_numbers(values), where)
        except USERS_FAULTS as error:
            # Nothing comes after it: the engine ends the update.
            return self._admission(str(error), pulumi.ResourceOptions(parent=self)).apply(lambda _: {})

    def _declare(self, values: dict[str, Any], where: str) -> dict[str, Any]:
        """Raises one of `USERS_FAULTS`."""
        _refuse_name(self._name, where)
        _refuse_platform(values, where)
        owner = naming.owner_of(pulumi.get_organization(), pulumi.get_project(), pulumi.get_stack(), self._name)
        site = Site(Path.cwd(), where, owner, pulumi.get_stack(), Part(self._name, self), HOSTED)
        planned = plan_release(values, site)
        observed = ground.observe(planned.plan, site)
        try:
            saved = Cluster(observed.access).read_record(NAME)
        except ClusterFault as fault:
            raise SettingsError(where, [f"platform.kubeconfig: {fault}"]) from None
        served = declare_update(planned, observed, saved, site)
        inside = pulumi.ResourceOptions(parent=site.parent, depends_on=[served.switch])
        inputs = {**asdict(observed.access), "ledger": served.switch.ledger}
        ledger = Hosted(LEDGER, "ledger", inputs, pulumi.ResourceOptions.merge(inside, QUIET))
        after = pulumi.ResourceOptions(parent=self, depends_on=[ledger])
        admitted = self._admission(refusal_of(planned, served, site), after)
        if pulumi.runtime.is_dry_run():
            return served.outputs
        return {
            name: pulumi.Output.all(value, admitted).apply(lambda both: both[0])
            for name, value in served.outputs.items()
        }

    def _admission(self, refusal: pulumi.Input[str], opts: pulumi.ResourceOptions) -> pulumi.Output[str]:
        """Known once the engine has let the update pass."""
        return Hosted(ADMISSION, f"{self._name}-admission", {"refusal": refusal}, opts).id


class Part(pulumi.ComponentResource):
    """Holds a component's children under a type that has its name in it, so that two of them may have children
    of one name: a URN has the types of its parents, not their names."""

    def __init__(self, name: str, parent: pulumi.Resource) -> None:
        super().__init__(f"{naming.PROJECT}:serving:{name}", name, {}, pulumi.ResourceOptions(parent=parent))


def unknown(values: Any, path: str = "") -> list[str]:
    """The paths of settings that are not known yet."""
    if isinstance(values, dict):
        return [one for key, value in values.items() for one in unknown(value, f"{path}.{key}" if path else key)]
    if isinstance(values, list):
        return [one for index, value in enumerate(values) for one in unknown(value, f"{path}[{index}]")]
    return [path] if path and contains_unknowns(values) else []


def _named(served: pulumi.Output[Any], name: str) -> pulumi.Output[Any]:
    return served.apply(lambda outputs: outputs[name])


def _refuse_platform(values: dict[str, Any], where: str) -> None:
    platform = values.get("platform")
    kind, layers = (platform.get("kind"), platform.get("layers")) if isinstance(platform, dict) else (None, None)
    faults = []
    if kind == "aws":
        faults.append(f"platform.kind: found aws; wanted {' or '.join(PLATFORMS)}: the package serves on clusters that "
                      "exist; let the splitserve program make one (docs/how-to/build-on-aws.md)")  # fmt: skip
    if layers == "cluster":
        faults.append("platform.layers: found cluster; wanted all or serving: a Serving serves")
    if faults:
        raise SettingsError(where, faults)


def _refuse_name(name: str, where: str) -> None:
    """A part of a type, by which its children are told from another component's."""
    if not NAMED.fullmatch(name):
        raise SettingsError(where, [
            f"the resource's name: found {name!r}; wanted a letter, then at most 62 letters, digits, - and _"
        ])  # fmt: skip
