"""Find the engines of a cluster's pods, and read their logs: the only part of a check that knows Kubernetes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from components.check.engine import Target
from components.check.settings import CannotCheck, Fault
from components.release.cluster import Access, Cluster, ClusterFault, Pod, describe

T = TypeVar("T")
WAY_OUT = "correct --kubeconfig, --context and --namespace"


@dataclass(frozen=True)
class Found:
    """The engines of both tiers, and the pods that they run in."""

    prefill: tuple[Target, ...]
    decode: tuple[Target, ...]
    pods: tuple[Pod, ...]


@dataclass(frozen=True)
class Selectors:
    """Label selectors of both tiers, and the engines' port."""

    prefill: str
    decode: str
    port: int


def connect(access: Access) -> Cluster:
    """The cluster of a kubeconfig. Raises CannotCheck."""
    from kubernetes.config.config_exception import ConfigException

    try:
        return Cluster(access)
    except (ConfigException, OSError) as error:
        raise CannotCheck(
            [Fault("kubeconfig", f"--kubeconfig: {access.kubeconfig} can't be used: {error}; {WAY_OUT}")]
        ) from None


def find(cluster: Cluster, selectors: Selectors) -> Found:
    """The engines of the pods that are ready. Raises CannotCheck with what is wrong of both tiers."""
    found, faults = [], []
    for option, selector in (("--prefill-selector", selectors.prefill), ("--decode-selector", selectors.decode)):
        try:
            found.append(_ready(cluster, option, selector))
        except CannotCheck as error:
            faults += error.faults
    if faults:
        raise CannotCheck(faults)
    prefill, decode = found
    return Found(_targets(prefill, selectors.port), _targets(decode, selectors.port), (*prefill, *decode))


def logs(cluster: Cluster, selector: str, option: str = "--decode-selector") -> dict[str, str]:
    """The logs of the pods that are ready, by name. Raises CannotCheck."""
    return {pod.name: _asked(lambda pod=pod: cluster.log(pod.name)) for pod in _ready(cluster, option, selector)}


def words(cluster: Cluster, selectors: list[str]) -> dict[str, str]:
    """What the pods have logged, by name, to explain a verdict; who may not read logs goes without."""
    try:
        return {pod.name: cluster.words(pod.name) for selector in selectors for pod in cluster.select(selector)}
    except ClusterFault:
        return {}


def _ready(cluster: Cluster, option: str, selector: str) -> list[Pod]:
    pods = _asked(lambda: cluster.select(selector))
    ready = [pod for pod in pods if pod.ready and pod.ip]
    if not ready:
        state = describe(pods) or "no pod at all"
        raise CannotCheck([Fault("no-pods", (
            f"{option} {selector} in namespace {cluster.namespace}: found {state}, wanted pods that are ready; look: "
            f"kubectl -n {cluster.namespace} get pods -l '{selector}'"))])  # fmt: skip
    return sorted(ready, key=lambda pod: pod.name)


def _targets(pods: list[Pod], port: int) -> tuple[Target, ...]:
    return tuple(Target(pod.name, f"http://{f'[{pod.ip}]' if ':' in str(pod.ip) else pod.ip}:{port}") for pod in pods)


def _asked(ask: Callable[[], T]) -> T:
    try:
        return ask()
    except ClusterFault as error:
        raise CannotCheck([Fault("cluster", f"the cluster can't be asked: {error}; {WAY_OUT}")]) from None
