"""The stand-in as one WSGI application: faults, refusals, EKS, else moto."""

from __future__ import annotations

import io
import json
import socket
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_api._internal.models import moto_api_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.http import HTTP_STATUS_CODES

from tools.awsim import moto_gaps
from tools.awsim.account_facts import answer_account
from tools.awsim.ec2_placement import PlacementGroups
from tools.awsim.ec2_reservations import Reservations
from tools.awsim.ec2_rules import refuse_ec2
from tools.awsim.eks_app import Eks
from tools.awsim.eks_state import Refused
from tools.awsim.fault_rules import Faults, Rule, faulty_answer, read_rules
from tools.awsim.fsx_rules import refuse_fsx
from tools.awsim.leftovers import INSIDE, leftovers
from tools.awsim.wire import Answer, Call, read_call, refusal

Environ = dict[str, Any]
Start = Callable[..., Any]
CONTROL = "/_awsim/"
JSON = {"Content-Type": "application/json"}


class Application:
    """Serves AWS and the control addresses below `/_awsim/`. One call at a time gets to the state."""

    def __init__(self, endpoint: str | None = None, authority: str | None = None) -> None:
        moto_gaps.fill()
        self.faults = Faults()
        self.eks = Eks(self.faults, endpoint, authority)
        self._placement = PlacementGroups()
        self._reservations = Reservations()
        self.url = ""
        """Set by the server once it listens."""
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._calls: Counter[tuple[str, str]] = Counter()
        self._regions: set[str] = set()
        self._lock = threading.RLock()

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "/")
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if path.startswith(CONTROL):
            return _send(self._control(path.removeprefix(CONTROL), environ["REQUEST_METHOD"], body), start)
        call = _call_of(environ, body)
        environ["wsgi.input"] = io.BytesIO(body)
        if call is None or call.access_key == INSIDE:
            return self._forward(environ, start, call)
        with self._lock:
            self._calls[(call.service, call.action)] += 1
            self._regions.add(call.region)
        rule = self.faults.due(call)
        return self._faulty(rule, call, environ, start) if rule else self._forward(environ, start, call)

    def _faulty(self, rule: Rule, call: Call, environ: Environ, start: Start) -> Iterable[bytes]:
        if rule.kind in ("slow", "timeout"):
            time.sleep(rule.seconds)
        if rule.kind == "slow":
            return self._forward(environ, start, call)
        if rule.kind == "timeout":
            _hang_up(environ)
            return []
        if rule.kind == "partial":
            list(self._forward(environ, lambda *_: lambda _: None, call))
        answer = faulty_answer(rule, call)
        assert answer is not None
        return _send(answer, start)

    def _forward(self, environ: Environ, start: Start, call: Call | None) -> Iterable[bytes]:
        with self._lock:
            try:
                answer = self._own(call) if call else None
                return _send(answer, start) if answer else list(self._moto(environ, start))
            except Refused as refused:
                assert call is not None
                return _send(refusal(call.service, refused.status, refused.code, refused.message), start)
            except NotImplementedError as lack:
                service = call.service if call else "s3"
                return _send(refusal(service, 400, "UnsupportedOperation", f"the stand-in: {lack}"), start)
            except Exception as fault:
                # Not 500: a client would ask ten times for the same fault of the stand-in's own.
                traceback.print_exc()
                service, message = (call.service if call else "s3"), f"{type(fault).__name__}: {fault}"
                return _send(refusal(service, 400, "StandInFault", message), start)

    def _own(self, call: Call) -> Answer | None:
        """The answer where it is not moto's. Raises Refused for what AWS refuses and moto would take."""
        if call.service == "eks":
            return self.eks.answer(call)
        if call.service == "ec2":
            refuse_ec2(call, self.eks)
            return self._placement.answer(call) or self._reservations.answer(call)
        if call.service == "fsx":
            refuse_fsx(call)
        return answer_account(call)

    def _control(self, name: str, method: str, body: bytes) -> Answer:
        if name == "faults" and method == "POST":
            try:
                self.faults.replace(read_rules(json.loads(body)))
            except (ValueError, TypeError) as error:
                return Answer(400, JSON, json.dumps({"error": str(error)}).encode())
            return Answer(200, JSON, b"{}")
        if name == "calls":
            calls = [{"service": s, "action": a, "count": n} for (s, a), n in sorted(self._calls.items())]
            return Answer(200, JSON, json.dumps(calls).encode())
        if name == "leftovers":
            found = [line for region in sorted(self._regions) for line in leftovers(self.url, region)]
            return Answer(200, JSON, json.dumps(sorted(set(found))).encode())
        if name == "reset" and method == "POST":
            self.reset()
            return Answer(200, JSON, b"{}")
        return Answer(404, JSON, json.dumps({"error": f"no {method} {CONTROL}{name}"}).encode())

    def reset(self) -> None:
        """A new account: no resources, no faults, no calls counted."""
        with self._lock:
            moto_api_backend.reset()
            self.eks.reset()
            self._placement.reset()
            self._reservations.reset()
            self.faults.replace([])
            self._calls.clear()


def _call_of(environ: Environ, body: bytes) -> Call | None:
    """The call; a presigned one gets the header by which moto finds the service."""
    headers = {key[5:].replace("_", "-").lower(): value for key, value in environ.items() if key.startswith("HTTP_")}
    path, _, query = environ.get("RAW_URI", environ.get("PATH_INFO", "/")).partition("?")
    call = read_call(environ["REQUEST_METHOD"], path, query, headers, body)
    if call and "HTTP_AUTHORIZATION" not in environ:
        scope = f"{call.access_key}/20000101/{call.region}/{call.service}/aws4_request"
        environ["HTTP_AUTHORIZATION"] = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"
    return call


def _send(answer: Answer, start: Start) -> Iterable[bytes]:
    headers = [*answer.headers.items(), ("Content-Length", str(len(answer.body)))]
    start(f"{answer.status} {HTTP_STATUS_CODES.get(answer.status, 'Error')}", headers)
    return [answer.body]


def _hang_up(environ: Environ) -> None:
    """Close the connection without an answer."""
    connection = environ.get("werkzeug.socket")
    if isinstance(connection, socket.socket):
        connection.shutdown(socket.SHUT_RDWR)
