"""What node groups, balancers and weights need to know of a cluster that may be another stack's.

A cluster's stack exports them; a serving stack reads them back. Both sides are here, so that neither can
forget a field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import pulumi

from components.platform.eks_access import EksCluster

CONTRACT = 1
"""The version of the exported mapping: another one when a field is renamed or goes."""


class NotACluster(ValueError):
    """A stack's output is no description of a cluster; the text says what is wrong."""


@dataclass(frozen=True)
class ClusterFacts:
    """Ids and names, each a value or an output. `private` and `public` are subnet ids by zone;
    `router_nodes` the Auto Scaling group of the nodes that run routers."""

    name: pulumi.Input[str]
    arn: pulumi.Input[str]
    endpoint: pulumi.Input[str]
    certificate_authority: pulumi.Input[str]
    region: str
    kubernetes_version: str
    account: pulumi.Input[str]
    vpc_id: pulumi.Input[str]
    private: Mapping[str, pulumi.Input[str]]
    public: Mapping[str, pulumi.Input[str]]
    security_group: pulumi.Input[str]
    efa_security_group: pulumi.Input[str]
    node_role_arn: pulumi.Input[str]
    router_nodes: pulumi.Input[str]

    def exported(self) -> dict[str, Any]:
        """As a stack output, by camelCase keys."""
        return {"contract": CONTRACT, **{_camel(field.name): getattr(self, field.name) for field in fields(self)}}

    def reach(self) -> pulumi.Output[EksCluster]:
        """What a kubeconfig needs."""
        parts = pulumi.Output.all(self.name, self.arn, self.endpoint, self.certificate_authority)
        return parts.apply(lambda p: EksCluster(p[0], self.region, p[1], p[2], p[3]))

    @staticmethod
    def read(exported: Any) -> ClusterFacts:
        """The plain values of another stack's output. Raises NotACluster."""
        if not isinstance(exported, Mapping):
            raise NotACluster(f"no output `cluster` (found {type(exported).__name__})")
        if exported.get("contract") != CONTRACT:
            raise NotACluster(
                f"an output `cluster` of contract {exported.get('contract')}; this version reads {CONTRACT}"
            )
        wanted = {field.name: _camel(field.name) for field in fields(ClusterFacts)}
        if lacks := [key for key in wanted.values() if exported.get(key) is None]:
            raise NotACluster(f"an output `cluster` without {', '.join(lacks)}")
        return ClusterFacts(**{name: exported[key] for name, key in wanted.items()})


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
