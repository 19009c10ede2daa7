"""One way to ask AWS: each question once, in limited time, and a plain reason where no answer comes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
    UnknownServiceError,
)

from components.platform.preflight.wanted import Wanted

ATTEMPTS = 4
CONNECT_LIMIT_S = 3
READ_LIMIT_S = 8
"""Four attempts at this limit stay near a check's own limit (run.CHECK_LIMIT_S)."""
CONNECTIONS = 50
"""More than there are checks at once, so that botocore warns of no full pool."""

Clients = Callable[[str], Any]
"""From a service's name to its boto3 client."""
Reason = Literal["denied", "throttled", "credentials", "unreachable", "absent", "refused"]
Found = TypeVar("Found")

IAM_PREFIXES = {"service-quotas": "servicequotas", "elbv2": "elasticloadbalancing"}
"""Where an IAM action's prefix is not boto3's name (Service Authorization Reference)."""
DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "Client.UnauthorizedOperation")
THROTTLED = ("Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestLimitExceeded",
             "RequestThrottledException", "TooManyRequestsException", "EC2ThrottledException", "SlowDown")  # fmt: skip
"""As botocore's standard retry mode has them (botocore/retries/standard.py)."""
BAD_CREDENTIALS = ("ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException",
                   "AuthFailure", "SignatureDoesNotMatch", "InvalidSignatureException", "RequestExpired",
                   "IncompleteSignature", "MissingAuthenticationToken")  # fmt: skip
"""https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html and the common errors of STS."""
ABSENT = ("OptInRequired", "UnsupportedOperation", "InvalidAction", "UnknownOperationException", "404")
NO_CREDENTIALS = (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError, ProfileNotFound, SSOError,
                  TokenRetrievalError)  # fmt: skip


class CouldNotAsk(Exception):
    """No answer. `code` is AWS's error code, which a check may know to be an answer after all."""

    def __init__(self, reason: Reason, text: str, fix: str, code: str = "") -> None:
        self.reason: Reason = reason
        self.text, self.fix, self.code = text, fix, code
        super().__init__(text)


@dataclass
class Ask:
    """What the checks of one run share: the clients, the clock, and every answer so far."""

    wanted: Wanted
    clients: Clients
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    security_groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    """EC2's answers by tier, for the rules on security groups."""
    actions: set[str] = field(default_factory=set)
    """The IAM actions of every call so far."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _once: dict[Any, _Once] = field(default_factory=dict)

    def call(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """One call. Raises CouldNotAsk."""
        return self._asked(service, operation, lambda client: getattr(client, operation)(**parameters))

    def pages(self, service: str, operation: str, result: str, **parameters: Any) -> list[dict[str, Any]]:
        """The list named `result` of all pages. Raises CouldNotAsk."""

        def ask(client: Any) -> list[dict[str, Any]]:
            return [entry for page in client.get_paginator(operation).paginate(**parameters) for entry in page[result]]

        return self._asked(service, operation, ask)

    def once(self, question: Any, ask: Callable[[], Found]) -> Found:
        """The answer, or the failure, of whoever asked first."""
        with self._lock:
            entry = self._once.setdefault(question, _Once())
        return entry.get(ask)

    def _asked(self, service: str, operation: str, ask: Callable[[Any], Found]) -> Found:
        action = iam_action(service, operation)
        self.actions.add(action)
        try:
            return ask(self.clients(service))
        except (BotoCoreError, ClientError) as error:
            raise could_not_ask(error, action) from None


class _Once:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.answer: Any = None
        self.failure: CouldNotAsk | None = None
        self.asked = False

    def get(self, ask: Callable[[], Any]) -> Any:
        with self.lock:
            if not self.asked:
                try:
                    self.answer = ask()
                except CouldNotAsk as error:
                    self.failure = error
                self.asked = True
        if self.failure:
            raise self.failure
        return self.answer


def iam_action(service: str, operation: str) -> str:
    """`ec2`, `describe_vpcs` -> `ec2:DescribeVpcs`."""
    name = "".join(part.capitalize() for part in operation.split("_"))
    return f"{IAM_PREFIXES.get(service, service)}:{name.replace('GetAwsDefault', 'GetAWSDefault')}"


def could_not_ask(error: BotoCoreError | ClientError, action: str) -> CouldNotAsk:
    """Why there is no answer, in plain words, and what to do."""
    if isinstance(error, ClientError):
        return _refusal(error, action)
    if isinstance(error, NO_CREDENTIALS):
        return CouldNotAsk("credentials", f"no credentials: {_line(error)}", "log in, or set AWS_PROFILE")
    if isinstance(error, UnknownServiceError):
        return CouldNotAsk("absent", f"a service that boto3 does not know: {_line(error)}", "update boto3")
    if isinstance(error, HTTPClientError):
        return CouldNotAsk("unreachable", f"no answer to {action}: {_line(error)}",
                           "check region, network, proxy and VPC endpoints")  # fmt: skip
    return CouldNotAsk("refused", f"no answer to {action}: {_line(error)}", "")


def _refusal(error: ClientError, action: str) -> CouldNotAsk:
    detail = error.response.get("Error", {})
    code, message = str(detail.get("Code", "")), str(detail.get("Message", "")).strip().split("\n")[0][:200]
    if code in DENIED:
        return CouldNotAsk("denied", f"not allowed to ask ({code})", f"allow the IAM action {action}", code)
    if code in THROTTLED:
        return CouldNotAsk("throttled", f"throttled ({code}) in all {ATTEMPTS} attempts at {action}", "try again", code)
    if code in BAD_CREDENTIALS:
        return CouldNotAsk("credentials", f"{action} refused the credentials: {code}: {message}",
                           "log in again; a region that is not enabled answers the same", code)  # fmt: skip
    if code in ABSENT:
        return CouldNotAsk("absent", f"{action} is not there in this region: {code}: {message}",
                           "choose a region that has the service", code)  # fmt: skip
    return CouldNotAsk("refused", f"{action} failed: {code}: {message}", "", code)


def _line(error: Exception) -> str:
    return str(error).split("\n")[0][:200]


def aws_clients(region: str, profile: str | None = None) -> Clients:
    """boto3's clients of one session, each made once; a session is not safe to share while it makes one."""
    config = Config(
        region_name=region, retries={"mode": "standard", "total_max_attempts": ATTEMPTS}, connect_timeout=CONNECT_LIMIT_S,
        read_timeout=READ_LIMIT_S, max_pool_connections=CONNECTIONS,
    )  # fmt: skip
    lock, made, sessions = threading.Lock(), dict[str, Any](), list[Any]()

    def client(service: str) -> Any:
        with lock:
            if not sessions:
                sessions.append(boto3.Session(region_name=region, profile_name=profile))
            if service not in made:
                made[service] = sessions[0].client(service, config=config)
            return made[service]

    return client
