"""Calls to AWS as the provider makes them: parameters checked first, throttling retried, errors short."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import boto3
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tools.awsim.shapes import faults, input_shape, operation

ATTEMPTS = 10
POLL_S = 0.2
WAIT_S = float(os.environ.get("AWSIM_WAIT_S", "60"))
"""How long to wait for something to become active or to go, and for a refused deletion."""
GONE = re.compile(r"NotFound|NoSuch|NotAttached")
BUSY = re.compile(r"DependencyViolation|ResourceInUse|DeleteConflict|OperationNotPermitted|InvalidIPAddress\.InUse"
                  r"|AuthFailure$|TargetGroupAssociationLimit")  # fmt: skip
"""Refusals of a deletion that end by themselves when what depends on the thing is gone."""


class AwsError(Exception):
    """AWS refuses, or does not get where it should. The message is what the user reads."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code

    @property
    def gone(self) -> bool:
        return bool(GONE.search(self.code))

    @property
    def busy(self) -> bool:
        return bool(BUSY.search(self.code))


class Aws:
    """One region's clients with one set of credentials."""

    def __init__(self, region: str, credentials: dict[str, str], endpoints: dict[str, str] | None = None) -> None:
        self.region = region
        self._session = boto3.session.Session(region_name=region, **credentials)  # type: ignore[arg-type]
        self._endpoints = endpoints or {}
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    def _client(self, service: str) -> Any:
        with self._lock:  # making clients is not thread-safe, using them is
            if service not in self._clients:
                config = Config(
                    retries={"mode": "standard", "total_max_attempts": ATTEMPTS}, connect_timeout=5,
                    read_timeout=30, s3={"addressing_style": "path"}, max_pool_connections=32,
                )  # fmt: skip
                endpoint = self._endpoints.get(service)
                self._clients[service] = self._session.client(service, config=config, endpoint_url=endpoint)
            return self._clients[service]

    def call(self, service: str, action: str, **parameters: Any) -> dict[str, Any]:
        """Raises AwsError with AWS's own message, also for what the service's model forbids."""
        given = {key: value for key, value in parameters.items() if value is not None}
        if operation(service, action).input_shape is not None:
            wrong = list(faults(given, input_shape(service, action)))
            if wrong:
                raise AwsError(f"{service}:{action}: {'; '.join(wrong)}", "ParamValidation")
        try:
            return getattr(self._client(service), xform_name(action))(**given)
        except ClientError as error:
            raise AwsError(str(error), error.response.get("Error", {}).get("Code", "")) from None
        except BotoCoreError as error:
            raise AwsError(f"{service}:{action}: {error}") from None

    def found(self, service: str, action: str, **parameters: Any) -> dict[str, Any] | None:
        """The answer, or None where AWS says that there is no such thing."""
        try:
            return self.call(service, action, **parameters)
        except AwsError as error:
            if error.gone:
                return None
            raise

    def remove(self, service: str, action: str, **parameters: Any) -> None:
        """Delete: what is gone is fine, and a refusal because of dependants is tried again for a while."""
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                self.call(service, action, **parameters)
                return
            except AwsError as error:
                if error.gone:
                    return
                if not error.busy or time.monotonic() > deadline:
                    raise
            time.sleep(POLL_S)


def wait(what: str, state: Callable[[], str], wanted: str, failed: tuple[str, ...] = (), why: Any = None) -> None:
    """Ask until the state is `wanted`. `why` tells the reason of a failure or of being late."""
    deadline = time.monotonic() + WAIT_S
    while (now := state()) != wanted:
        if now in failed or time.monotonic() > deadline:
            reason = f": {why()}" if why and why() else ""
            late = "" if now in failed else f" (wanted {wanted} within {WAIT_S:.0f} s)"
            raise AwsError(f"{what} is {now or 'gone'}{late}{reason}")
        time.sleep(POLL_S)
