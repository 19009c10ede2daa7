"""The nodes' AMIs, and the Kubernetes version that they and the control plane are of.

Parameters: https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html and
https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id-bottlerocket.html. Names of AL2023 AMIs:
https://github.com/awslabs/amazon-eks-ami (`amazon-eks-node-al2023-<arch>-<variant>-<version>-v<date>`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from components.platform.preflight.answer import Answer, fault, ok, unknown
from components.platform.preflight.ask import Ask, CouldNotAsk
from components.platform.preflight.check import Subject, check, each_group, once
from components.platform.preflight.instances import described
from components.platform.preflight.wanted import WantedGroup

SUPPORTED = {"STANDARD_SUPPORT": "endOfStandardSupportDate", "EXTENDED_SUPPORT": "endOfExtendedSupportDate"}
"""https://docs.aws.amazon.com/eks/latest/APIReference/API_ClusterVersionInformation.html"""


@check("image", "There is an AMI for the group's family, architecture, Kubernetes version and release.",
       ("ec2:DescribeInstanceTypes", "ssm:GetParameter", "ec2:DescribeImages"),
       "https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html",
       each_group("ami", lambda group: not group.launch_template))  # fmt: skip
def image(ask: Ask, subject: Subject) -> Iterator[Answer]:
    group: WantedGroup = subject.thing
    entry = described(ask, [group.instance]).get(group.instance)
    if entry is None:
        yield unknown(subject.key, f"EC2 does not describe {group.instance}, so its architecture is unknown")
        return
    architectures = tuple(entry["ProcessorInfo"]["SupportedArchitectures"])
    if group.ami.startswith("ami-"):
        yield judge_own_image(subject.key, group, architectures, _images(ask, ImageIds=[group.ami]))
    elif group.ami == "al2023" and group.ami_release:
        name = al2023_name(group, ask.wanted.kubernetes_version, architectures[0])
        found = _images(ask, Owners=["amazon"], Filters=[{"Name": "name", "Values": [name]}])
        yield judge_release(f"{group.key}.amiRelease", group.ami_release, name, found)
    else:
        yield _published(ask, subject.key, parameter(group, ask.wanted.kubernetes_version, architectures[0]))


def parameter(group: WantedGroup, version: str, architecture: str) -> str:
    """The public parameter that EKS keeps for an AMI family. Raises ValueError for another family."""
    if group.ami == "al2023":
        variant = "nvidia" if group.has_gpus else "standard"
        return f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/{variant}/recommended/release_version"
    if group.ami == "bottlerocket":
        flavour = "-nvidia" if group.has_gpus else ""
        return f"/aws/service/bottlerocket/aws-k8s-{version}{flavour}/{architecture}/{group.ami_release or 'latest'}/image_id"
    raise ValueError(f"{group.ami!r} is no AMI family: al2023, bottlerocket or ami-…")


def al2023_name(group: WantedGroup, version: str, architecture: str) -> str:
    """The AMI's name of a release such as `1.34.2-20260101`."""
    variant, date = "nvidia" if group.has_gpus else "standard", (group.ami_release or "").rsplit("-", 1)[-1]
    return f"amazon-eks-node-al2023-{architecture}-{variant}-{version}-v{date}"


def _published(ask: Ask, key: str, name: str) -> Answer:
    try:
        answer = ask.once(name, lambda: ask.call("ssm", "get_parameter", Name=name))
    except CouldNotAsk as error:
        if error.code != "ParameterNotFound":
            raise
        return fault(key, f"no parameter {name}", "an AMI for this version and architecture",
                     "choose another ami, amiRelease or kubernetesVersion")  # fmt: skip
    value = answer.get("Parameter", {}).get("Value")
    return ok(key, f"{value} ({name})") if value else unknown(key, f"{name} without a value")


def _images(ask: Ask, **parameters: Any) -> list[dict[str, Any]]:
    try:
        return ask.call("ec2", "describe_images", **parameters)["Images"]
    except CouldNotAsk as error:
        if error.code.startswith("InvalidAMIID"):
            return []
        raise


def judge_release(key: str, release: str, name: str, found: list[dict[str, Any]]) -> Answer:
    if any(entry.get("Name") == name for entry in found):
        return ok(key, f"{name} is {next(e['ImageId'] for e in found if e.get('Name') == name)}")
    return fault(key, f"no AMI {name}", f"an AMI of release {release}", "leave amiRelease out for the newest")


def judge_own_image(key: str, group: WantedGroup, architectures: tuple[str, ...], found: list[dict[str, Any]]) -> Answer:  # fmt: skip
    entry = next((one for one in found if one["ImageId"] == group.ami), None)
    if entry is None:
        return fault(key, f"no {group.ami} that this account may use here", "an AMI of this region",
                     "copy it to the region, or share it with the account")  # fmt: skip
    if entry.get("Architecture") not in architectures:
        return fault(key, f"{group.ami} for {entry.get('Architecture')}",
                     f"{' or '.join(architectures)}, as {group.instance} has it")  # fmt: skip
    if entry.get("State") != "available":
        return fault(key, f"{group.ami}, {entry.get('State')}", "an available AMI")
    return ok(key, f"{group.ami}, {entry['Architecture']}, {entry.get('Name', 'unnamed')}")


@check("kubernetes-version", "EKS supports the Kubernetes version.", ("eks:DescribeClusterVersions",),
       "https://docs.aws.amazon.com/eks/latest/APIReference/API_DescribeClusterVersions.html",
       once("platform.aws.kubernetesVersion"))  # fmt: skip
def kubernetes_version(ask: Ask, subject: Subject) -> Iterator[Answer]:
    answer = ask.pages("eks", "describe_cluster_versions", "clusterVersions", includeAll=True)
    yield judge_version(subject.key, ask.wanted.kubernetes_version, answer)


def judge_version(key: str, version: str, answer: list[dict[str, Any]]) -> Answer:
    status = {entry["clusterVersion"]: entry.get("versionStatus") for entry in answer}
    supported = [name for name, word in status.items() if word in SUPPORTED]
    if not supported:
        return unknown(key, "no supported version at all in EKS's answer", version)
    if version not in supported:
        return fault(key, f"{version}, {status.get(version) or 'unknown to EKS'}", "a version that EKS supports",
                     f"choose one of {', '.join(sorted(supported, key=_parts, reverse=True))}")  # fmt: skip
    entry = next(one for one in answer if one["clusterVersion"] == version)
    end = entry.get(SUPPORTED[entry["versionStatus"]])
    until = f" until {end:%Y-%m-%d}" if end else ""
    dear = ", which EKS charges more for" if entry["versionStatus"] == "EXTENDED_SUPPORT" else ""
    return ok(key, f"{version}, {entry['versionStatus'].lower().replace('_', ' ')}{until}{dear}")


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
