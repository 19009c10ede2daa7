"""The component that programs in other languages declare: gated serving on a cluster that exists.

Its ledger is in the cluster, beside what it tells of: the stack's outputs are the program's own, not ours.
"""
# No `annotations` from `__future__`: Pulumi's analyzer reads the types themselves.

import json
import re
from pathlib import Path
from typing import Any, NoReturn, Optional, TypedDict

import pulumi
import pulumi_kubernetes as k8s
from pulumi.errors import InputPropertiesError
from pulumi.output import UNKNOWN, contains_unknowns

from components.release.cluster import Cluster, ClusterFault
from components.release.expectation import whole_numbers
from components.serving.labels import MANAGED_BY
from infra import ground, naming
from infra.package.arguments import ServingArgs
from infra.package.hosted import hosted
from infra.package.version import VERSION
from infra.serving_layer import USERS_FAULTS, Served, declare_update, passed_or, plan_release
from infra.settings import SettingsError
from infra.site import Site

LEDGER = "splitserve-ledger"
"""The ConfigMap that keeps the ledger, in the form of a release's record."""
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
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
    live: pulumi.Output[Optional[str]]
    """The id of the release that has the traffic: it passed its gate."""
    kv_transfer_ms: pulumi.Output[Optional[float]]
    """The live release's mean KV transfer with fresh caches, in ms, where it was measured."""
    kv_transfer_aged_ms: pulumi.Output[Optional[float]]
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
        opts: Optional[pulumi.ResourceOptions] = None,
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
        try:
            return self._declare(whole_numbers(values))
        except USERS_FAULTS as error:
            raise InputPropertiesError(str(error)) from None

    def _declare(self, values: dict[str, Any]) -> dict[str, Any]:
        site = self._site()
        _refuse_platform(values, site.where)
        planned = plan_release(values, site)
        observed = ground.observe(planned.plan, site)
        try:
            saved = Cluster(observed.access).read_record(LEDGER)
        except ClusterFault as fault:
            raise SettingsError(site.where, [f"platform.kubeconfig: {fault}"]) from None
        served = declare_update(planned, observed, saved, site)
        kept = self._keep_ledger(served, observed.access.namespace, site)
        passed = passed_or(InputPropertiesError, planned, served, site, kept.urn)
        if pulumi.runtime.is_dry_run():
            return served.outputs
        return {
            name: pulumi.Output.all(value, passed).apply(lambda both: both[0]) for name, value in served.outputs.items()
        }

    def _site(self) -> Site:
        """Refuses a name that types can't have: children are told from another component's by it."""
        where = f"{pulumi.get_project()}/{pulumi.get_stack()}: Serving {self._name}"
        if not NAME.fullmatch(self._name):
            _refuse(where, f"the resource's name: found {self._name!r}; wanted a letter, then letters, digits, - and _")
        owner = naming.owner_of(pulumi.get_organization(), pulumi.get_project(), pulumi.get_stack(), self._name)
        return Site(Path.cwd(), where, owner, pulumi.get_stack(), Part(self._name, self), hosted(VERSION))

    def _keep_ledger(self, served: Served, namespace: str, site: Site) -> k8s.core.v1.ConfigMap:
        """After everything that the update did, so that it tells what is true; refused releases are in it, too."""
        data = served.switch.ledger.apply(lambda ledger: json.dumps(whole_numbers(ledger), sort_keys=True))
        opts = pulumi.ResourceOptions(parent=site.parent, depends_on=[served.switch], hide_diffs=["data"])
        labels = {**MANAGED_BY, "app.kubernetes.io/component": "record"}
        return k8s.core.v1.ConfigMap(
            "ledger",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=LEDGER, namespace=namespace, labels=labels),
            data={"record.json": data},
            opts=pulumi.ResourceOptions.merge(served.opts, opts),
        )


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


def _refuse(where: str, fault: str) -> NoReturn:
    raise SettingsError(where, [fault])
