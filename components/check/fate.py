"""What became of the pods while they were measured, by Kubernetes: an address that is silent proves no end.

As the gate has it (components/release/measure.py, ended_since): a container that ended speaks against its
release, a pod that was deleted is another's doing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from components.check.result import Result, unmeasured
from components.check.settings import Fault
from components.check.words import way_out
from components.release.cluster import Cluster, ClusterFault, Pod

OUT_OF_REACH = (
    "no pod can be reached by its IP: run the check where the cluster's pod network is, or forward ports (kubectl "
    "port-forward) and give --prefill and --decode URLs"
)


@dataclass(frozen=True)
class Fates:
    """One sentence a pod. `there`: pods that are as they were."""

    deleted: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    there: tuple[str, ...] = ()


def with_fates(cluster: Cluster, before: Sequence[Pod], result: Result) -> Result:
    """The result of a measurement that broke off, by what Kubernetes says of the pods that it names; any other as
    it is. Never a pass."""
    silent = bool(result.faults) and all(fault.kind == "no-answer" for fault in result.faults)
    broken = {name for pair in result.pairs if pair.error for name in (pair.prefill, pair.decode)}
    asked = [pod for pod in before if silent or pod.name in broken]
    if result.outcome == "pass" or not asked:
        return result
    try:
        fates = fates_of(cluster, asked)
    except ClusterFault as fault:
        return replace(result, notes=(*result.notes, f"whether the pods are still there can't be asked: {fault}"))
    if fates.ended:
        return _said(result, "fail", "pod-ended", f"a container ended while it was measured: {'; '.join(fates.ended)}")
    if fates.deleted:
        return _said(result, "inconclusive", "pod-deleted",
                     f"could not measure: {'; '.join(fates.deleted)}")  # fmt: skip
    if len(result.faults) >= len(before):
        result = unmeasured([*result.faults, Fault("no-answer", OUT_OF_REACH)], result.limit_ms)
    there = f"by Kubernetes no pod has ended: {'; '.join(fates.there)}"
    return replace(result, notes=(*result.notes, there))


def fates_of(cluster: Cluster, before: Sequence[Pod]) -> Fates:
    """What became of each of these pods. Raises ClusterFault."""
    deleted, ended, there = [], [], []
    for pod in before:
        now = cluster.pod(pod.name)
        if now is None or now.uid != pod.uid:
            deleted.append(f"{pod.name} was deleted meanwhile" + (", and made anew under its name" if now else ""))
        elif now.ending:
            deleted.append(f"{pod.name} is being deleted")
        elif end := _end(pod, now):
            said = (end, cluster.last_warning(pod.name), cluster.last_words(pod.name))
            ended.append(f"{pod.name}: {'; '.join(part for part in said if part)}")
        else:
            there.append(f"{pod.name}: {now.state}{', ready' if now.ready else ', not ready'}")
    return Fates(tuple(deleted), tuple(ended), tuple(there))


def _end(before: Pod, now: Pod) -> str | None:
    """How the pod's container ended since, if it did; an evicted pod's may leave no exit code."""
    if now.restarts > before.restarts or (now.last_end and not before.last_end):
        return now.last_end or "its container was started again"
    return "the pod has failed" if now.state == "Failed" and before.state != "Failed" else None


def _said(result: Result, outcome: str, cause: str, message: str) -> Result:
    """The same measurement under another cause; what was found without Kubernetes is kept as a note."""
    return replace(result, outcome=outcome, cause=cause, message=message, fix=way_out(cause, result.fix), faults=(),
                   notes=(*result.notes, f"seen from here: {result.message}"))  # fmt: skip
