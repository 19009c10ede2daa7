"""Security groups that exist: that they do, and their rules, for `infra/rules/nodes.py` to judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from components.platform.preflight.answer import Answer, fault, ok
from components.platform.preflight.ask import Ask, CouldNotAsk
from components.platform.preflight.check import Subject, check, each_group
from components.platform.preflight.wanted import WantedGroup


@check("security-group", "The security group exists; the rules judge what it lets through.",
       ("ec2:DescribeSecurityGroups",),
       "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSecurityGroups.html",
       each_group("securityGroup", lambda group: group.security_group))  # fmt: skip
def security_group(ask: Ask, subject: Subject) -> Iterator[Answer]:
    group: WantedGroup = subject.thing
    try:
        answer = ask.call("ec2", "describe_security_groups", GroupIds=[group.security_group])["SecurityGroups"]
    except CouldNotAsk as error:
        if not error.code.startswith("InvalidGroup"):
            raise
        answer = []
    found = _entry(answer, group)
    if found is None:
        yield fault(subject.key, f"no {group.security_group}", "a security group of this account and region")
        return
    ask.security_groups[group.tier] = found
    count = len(found.get("IpPermissions", [])) + len(found.get("IpPermissionsEgress", []))
    yield ok(subject.key, f"{group.security_group} in {found.get('VpcId')}, {count} rules")


def _entry(answer: list[dict[str, Any]], group: WantedGroup) -> dict[str, Any] | None:
    return next((entry for entry in answer if entry["GroupId"] == group.security_group), None)
