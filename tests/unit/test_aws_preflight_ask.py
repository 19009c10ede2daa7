"""How AWS is asked, and what becomes of a question without an answer. Holds the stand-ins for the other files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import boto3
import botocore.endpoint
import botocore.session
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError, NoCredentialsError
from botocore.stub import Stubber
from moto import mock_aws

from components.platform.preflight.all_checks import checks
from components.platform.preflight.answer import Answer
from components.platform.preflight.ask import ATTEMPTS, Ask, Clients, CouldNotAsk, aws_clients, iam_action
from components.platform.preflight.check import Check
from components.platform.preflight.run import answers_of
from components.platform.preflight.wanted import Wanted, WantedGroup

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
REGION = "us-east-1"
PREFILL = WantedGroup(
    "platform.aws.nodeGroups.prefill", "prefill", "p5.48xlarge", 2, "us-east-1a", node_group="-prefill-1"
)
SYSTEM = WantedGroup("platform.aws.nodeGroups.system", "system", "m7i.xlarge", 2, "us-east-1a", node_group="-system")
EVERYTHING = Wanted(
    REGION, "us-east-1a",
    (replace(PREFILL, placement_group="pg", security_group="sg-1"),
     replace(PREFILL, key="platform.aws.nodeGroups.decode", tier="decode", capacity="block", reservation="cr-1"), SYSTEM),
    "splitserve-prod", "1.34", eips=1,
)  # fmt: skip
"""Something for each check, but for the subnets of a VPC that exists."""
SUBNETS = replace(EVERYTHING, subnet_ids=("subnet-1", "subnet-2"))


class Aws:
    """A stand-in for boto3: (service, operation) to an answer, or to an exception to raise."""

    def __init__(self, answers: dict[tuple[str, str], Any], default: Any = None) -> None:
        self.answers, self.default, self.calls = answers, default, list[tuple[str, str]]()

    def __call__(self, service: str) -> Any:
        return _Client(self, service)

    def answer(self, service: str, operation: str) -> Any:
        self.calls.append((service, operation))
        found = self.answers.get((service, operation), self.default)
        found = found(service, operation) if callable(found) else found
        if isinstance(found, Exception):
            raise found
        assert found is not None, f"{service} {operation} has no answer"
        return found


class _Client:
    def __init__(self, aws: Aws, service: str) -> None:
        self.aws, self.service = aws, service

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        return lambda **parameters: self.aws.answer(self.service, operation)

    def get_paginator(self, operation: str) -> Any:
        return SimpleNamespace(paginate=lambda **parameters: [self.aws.answer(self.service, operation)])


def refusal(code: str, message: str = "no") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "Operation")


def empty(service: str, operation: str) -> dict[str, Any]:
    """The service's answer with every list empty and every structure bare."""
    model: Any = botocore.session.get_session().get_service_model(service)
    name = next(n for n in model.operation_names if iam_action("x", operation) == f"x:{n}")
    shape: Any = model.operation_model(name).output_shape
    kinds = {"list": list, "structure": dict, "map": dict}
    return {key: kinds[member.type_name]() for key, member in shape.members.items() if member.type_name in kinds}


def stubbed(service: str, *answers: tuple[str, dict[str, Any] | str]) -> Clients:
    """A real client whose calls, in this order, are answered with a dict or refused with a code; botocore
    checks both against its model of the service."""
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    client = boto3.client(service, region_name=REGION, **keys)
    stubber = Stubber(client)
    for operation, answer in answers:
        if isinstance(answer, str):
            stubber.add_client_error(operation, answer, "no")
        else:
            stubber.add_response(operation, answer)
    stubber.activate()

    def clients(name: str) -> Any:
        assert name == service, f"{name} was asked, only {service} is stubbed"
        return client

    return clients


def answers(check: Check, wanted: Wanted, clients: Clients) -> list[Answer]:
    """A check's answers about all of its subjects."""
    ask = Ask(wanted, clients, NOW)
    return [answer for subject in check.subjects(wanted) for answer in answers_of(ask, check, subject)]


def only(check: Check, wanted: Wanted, clients: Clients) -> Answer:
    found = answers(check, wanted, clients)
    assert len(found) == 1, found
    return found[0]


@pytest.fixture(autouse=True)
def aws_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")


@pytest.fixture
def moto() -> Iterator[Clients]:
    with mock_aws():
        yield aws_clients(REGION)


ASKING = [check for check in checks() if check.actions]


def each_asking() -> list[Any]:
    return [pytest.param(check, id=check.id) for check in ASKING]


def subjects_of(check: Check) -> Wanted:
    return SUBNETS if check.id == "subnet-addresses" else EVERYTHING


def test_there_is_a_subject_for_each_check() -> None:
    assert [check.id for check in checks() if not list(check.subjects(subjects_of(check)))] == []


@pytest.mark.parametrize("check", each_asking())
def test_who_is_not_allowed_to_ask_learns_the_iam_action(check: Check) -> None:
    for answer in answers(check, subjects_of(check), Aws({}, refusal("UnauthorizedOperation"))):
        if check.id == "endpoints":
            assert answer.outcome == "ok" and "may not read" in answer.found
            continue
        assert answer.outcome == "unknown", answer
        assert answer.fix.removeprefix("allow the IAM action ") in check.actions


@pytest.mark.parametrize("check", each_asking())
@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (refusal("RequestLimitExceeded"), "throttled"),
        (EndpointConnectionError(endpoint_url="https://ec2"), "no answer to"),
        (refusal("OptInRequired"), "is not there in this region"),
        (refusal("InternalError"), "failed: InternalError"),
    ],
    ids=["throttled", "unreachable", "absent", "error"],
)
def test_a_question_without_an_answer_is_unknown(check: Check, failure: Exception, told: str) -> None:
    found = answers(check, subjects_of(check), Aws({}, failure))
    assert found and all(answer.outcome == "unknown" and told in answer.found for answer in found), found


@pytest.mark.parametrize("check", each_asking())
def test_nothing_passes_on_an_empty_answer(check: Check) -> None:
    found = answers(check, subjects_of(check), Aws({}, empty))
    assert found
    if check.id != "endpoints":
        assert not [answer for answer in found if answer.outcome == "ok"]


@pytest.mark.parametrize("check", each_asking())
def test_each_check_names_every_action_that_it_calls(check: Check) -> None:
    aws = Aws({("service-quotas", "get_service_quota"): refusal("NoSuchResourceException")}, empty)
    answers(check, subjects_of(check), aws)
    assert aws.calls
    assert {iam_action(service, operation) for service, operation in aws.calls} <= set(check.actions)


def test_each_action_is_one_that_boto3_can_call() -> None:
    session = botocore.session.get_session()
    services = {"servicequotas": "service-quotas", "elasticloadbalancing": "elbv2"}
    for action in {action for check in checks() for action in check.actions}:
        prefix, name = action.split(":")
        model: Any = session.get_service_model(services.get(prefix, prefix))
        assert name in model.operation_names, action


def test_a_throttled_call_is_tried_again_before_it_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    clients, sent = aws_clients(REGION), []
    monkeypatch.setattr(botocore.endpoint.time, "sleep", lambda seconds: None)
    body = (
        b"<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>slow</Message></Error></Errors></Response>"
    )

    def throttle(request: Any, **rest: Any) -> AWSResponse:
        sent.append(request)
        raw: Any = SimpleNamespace(stream=lambda: iter([body]), read=lambda: body)
        return AWSResponse(request.url, 503, {}, raw)

    clients("ec2").meta.events.register("before-send.ec2.*", throttle)
    with pytest.raises(CouldNotAsk, match="in all 4 attempts at ec2:DescribeVpcs") as error:
        Ask(EVERYTHING, clients).call("ec2", "describe_vpcs")
    assert (len(sent), error.value.reason) == (ATTEMPTS, "throttled")


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (NoCredentialsError(), "credentials"),
        (refusal("ExpiredToken"), "credentials"),
        (refusal("AccessDeniedException"), "denied"),
        (refusal("ThrottlingException"), "throttled"),
        (refusal("SomethingNew"), "refused"),
    ],
)
def test_a_failure_has_its_reason(failure: BotoCoreError | ClientError, reason: str) -> None:
    with pytest.raises(CouldNotAsk) as error:
        Ask(EVERYTHING, Aws({}, failure)).call("ec2", "describe_vpcs")
    assert error.value.reason == reason


def test_a_profile_that_is_not_there_is_a_matter_of_credentials() -> None:
    with pytest.raises(CouldNotAsk, match="no-such-profile") as error:
        Ask(EVERYTHING, aws_clients(REGION, "no-such-profile")).call("ec2", "describe_vpcs")
    assert error.value.reason == "credentials"


def test_the_same_question_is_asked_once_even_if_it_failed() -> None:
    aws = Aws({}, refusal("InternalError"))
    ask = Ask(EVERYTHING, aws)
    for _ in range(2):
        with pytest.raises(CouldNotAsk):
            ask.once("q", lambda: ask.call("ec2", "describe_vpcs"))
    assert len(aws.calls) == 1
