"""EKS add-ons: a version for each, of the cluster's Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from components.hardware.nearest import nearest
from components.platform.addons import OF_KUBERNETES, PINNED, PINNED_FOR
from infra.plan import Plan
from infra.rules.rule import Finding, rule

KUBERNETES_VERSION = re.compile(r"1\.\d+")
ADDON_VERSION = re.compile(r"v\d+\.\d+\.\d+-eksbuild\.\d+")


@rule("kubernetes-version-named", "error", "The Kubernetes version is a minor one, as EKS counts them.",
      "https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html: version")  # fmt: skip
def kubernetes_version(plan: Plan) -> Iterator[Finding]:
    aws = plan.settings.platform.aws
    if aws and not KUBERNETES_VERSION.fullmatch(aws.kubernetes_version):
        yield Finding("platform.aws.kubernetesVersion", f"{aws.kubernetes_version!r}", "a minor version",
                      f"such as {PINNED_FOR!r}; EKS chooses the patch")  # fmt: skip


@rule("addons-pinned", "error", "Add-ons that follow Kubernetes' version have one for it.",
      "https://docs.aws.amazon.com/eks/latest/userguide/managing-kube-proxy.html; components/platform/addons.py")  # fmt: skip
def addons_pinned(plan: Plan) -> Iterator[Finding]:
    aws = plan.settings.platform.aws
    if not aws or aws.kubernetes_version == PINNED_FOR or not KUBERNETES_VERSION.fullmatch(aws.kubernetes_version):
        return
    for name in OF_KUBERNETES:
        if name not in aws.cluster.addons:
            yield Finding(
                f"platform.aws.cluster.addons.{name}", f"nothing, with kubernetesVersion {aws.kubernetes_version}",
                f"a version for it: splitserve has those of {PINNED_FOR}",
                f"`aws eks describe-addon-versions --kubernetes-version {aws.kubernetes_version} --addon-name {name}` "
                "lists them",
            )  # fmt: skip


@rule("addons-known", "error", "Add-on versions are given for add-ons that the stack installs, as EKS writes them.",
      "splitserve: a name that it does not know would be left out silently")  # fmt: skip
def addons_known(plan: Plan) -> Iterator[Finding]:
    aws = plan.settings.platform.aws
    for name, version in aws.cluster.addons.items() if aws else ():
        key = f"platform.aws.cluster.addons.{name}"
        if name not in PINNED:
            yield Finding(key, "an add-on that the stack does not install", f"one of {', '.join(PINNED)}",
                          nearest(name, PINNED))  # fmt: skip
        elif not ADDON_VERSION.fullmatch(version):
            yield Finding(key, f"{version!r}", f"a version as EKS writes it, such as {PINNED[name]}",
                          f"`aws eks describe-addon-versions --addon-name {name}` lists them")  # fmt: skip
