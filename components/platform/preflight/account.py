"""Who asks and from where: credentials, the region, the programs on PATH, the services' endpoints."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from typing import Any

from components.platform.preflight.answer import Answer, fault, ok, unknown
from components.platform.preflight.ask import Ask, CouldNotAsk
from components.platform.preflight.check import Subject, check, once
from components.platform.preflight.wanted import Wanted

USED_SERVICES = {
    "autoscaling": "describe_account_limits",
    "eks": "list_clusters",
    "elbv2": "describe_account_limits",
    "iam": "get_account_summary",
    "kms": "list_aliases",
    "logs": "describe_log_groups",
}
"""A cheap read of each service that building the cluster calls and no other check asks."""


@check("credentials", "There are credentials, and STS takes them.", ("sts:GetCallerIdentity",),
       "https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html", once("AWS credentials"))  # fmt: skip
def credentials(ask: Ask, subject: Subject) -> Iterator[Answer]:
    try:
        yield judge_identity(subject.key, ask.call("sts", "get_caller_identity"))
    except CouldNotAsk as error:
        if error.reason != "credentials":
            raise
        yield fault(subject.key, error.text, "credentials that AWS takes", error.fix)


def judge_identity(key: str, answer: dict[str, Any]) -> Answer:
    account, arn = answer.get("Account"), answer.get("Arn")
    if not account or not arn:
        return unknown(key, "an answer of STS without account and ARN")
    return ok(key, f"account {account}, {arn}")


@check("region", "The region exists and is enabled for the account.", ("ec2:DescribeRegions",),
       "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeRegions.html",
       once("platform.aws.region"))  # fmt: skip
def region(ask: Ask, subject: Subject) -> Iterator[Answer]:
    answer = ask.call("ec2", "describe_regions", AllRegions=True)
    yield judge_region(subject.key, ask.wanted.region, answer["Regions"])


def judge_region(key: str, name: str, regions: list[dict[str, Any]]) -> Answer:
    if not regions:
        return unknown(key, "no region at all in EC2's answer", name)
    status = {entry["RegionName"]: entry.get("OptInStatus") for entry in regions}
    if name not in status:
        return fault(key, repr(name), "a region", f"there are {', '.join(sorted(status))}")
    if status[name] == "not-opted-in":
        return fault(key, f"{name}, not enabled for the account", "a region that is enabled",
                     "enable it in the account's settings")  # fmt: skip
    if status[name] not in ("opt-in-not-required", "opted-in"):
        return unknown(key, f"{name}, opt-in status {status[name]}")
    return ok(key, f"{name}, {status[name]}")


def _programs(wanted: Wanted) -> Iterable[Subject]:
    return [Subject("PATH", program) for program in wanted.programs]


@check("programs", "The programs that the kubeconfig calls are on PATH.", (),
       "https://docs.aws.amazon.com/eks/latest/userguide/create-kubeconfig.html: `aws eks get-token`", _programs)  # fmt: skip
def programs(ask: Ask, subject: Subject) -> Iterator[Answer]:
    path = shutil.which(subject.thing)
    if path:
        yield ok(subject.key, path, subject.thing)
    else:
        yield fault(subject.key, f"no `{subject.thing}`", f"`{subject.thing}`", "install the AWS command line: uv sync")


def _services(wanted: Wanted) -> Iterable[Subject]:
    return [Subject(f"endpoint of {service}", service) for service in USED_SERVICES]


@check("endpoints", "The services that building the cluster calls answer; a refusal is an answer, too.",
       ("autoscaling:DescribeAccountLimits", "eks:ListClusters", "elasticloadbalancing:DescribeAccountLimits",
        "iam:GetAccountSummary", "kms:ListAliases", "logs:DescribeLogGroups"),
       "https://docs.aws.amazon.com/general/latest/gr/aws-service-information.html", _services)  # fmt: skip
def endpoints(ask: Ask, subject: Subject) -> Iterator[Answer]:
    try:
        ask.call(subject.thing, USED_SERVICES[subject.thing])
        yield ok(subject.key, f"answers in {ask.wanted.region}")
    except CouldNotAsk as error:
        if error.reason != "denied":
            raise
        yield ok(subject.key, f"answers in {ask.wanted.region}; this user may not read there")
