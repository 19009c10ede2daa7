"""Which AWS call an HTTP request is, and how a refusal of it looks in the call's own protocol. Pure.

Protocols: query, ec2, json, rest-json, rest-xml
(https://smithy.io/2.0/aws/protocols/index.html). The service is the signing name in the credential.
"""

from __future__ import annotations

import functools
import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote
from xml.sax.saxutils import escape

from tools.awsim.shapes import service

SERVICES = {"elasticloadbalancing": "elbv2", "monitoring": "cloudwatch", "servicequotas": "service-quotas"}
"""Signing names that differ from botocore's service names."""
MAX_LIST_INDEX = 1000


@dataclass(frozen=True)
class Call:
    """One API call. `parameters` has the wire's names."""

    service: str
    action: str
    region: str
    access_key: str
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """A finished HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes


def credential(headers: Mapping[str, str], query: Mapping[str, list[str]]) -> tuple[str, str, str] | None:
    """(access key, region, signing name) of a signed or presigned request."""
    found = re.search(r"Credential=([^,\s]+)", headers.get("authorization", ""))
    text = found.group(1) if found else query.get("X-Amz-Credential", [""])[0]
    parts = text.split("/")
    return (parts[0], parts[2], parts[3]) if len(parts) == 5 else None


def read_call(method: str, path: str, query_text: str, headers: Mapping[str, str], body: bytes) -> Call | None:
    """The call, or None for what is no signed AWS request."""
    query = parse_qs(query_text, keep_blank_values=True)
    signed = credential(headers, query)
    if signed is None:
        return None
    access_key, region, signing_name = signed
    name = SERVICES.get(signing_name, signing_name)
    if "x-amz-target" in headers:
        return Call(name, headers["x-amz-target"].rsplit(".", 1)[1], region, access_key, _json(body))
    form = parse_qs(body.decode(errors="replace"), keep_blank_values=True) if path == "/" else {}
    flat = {key: values[0] for key, values in {**query, **form}.items()}
    if "Action" in flat:
        return Call(name, flat.pop("Action"), region, access_key, nested(flat))
    matched = match_rest(name, method, path, query)
    if matched is None:
        return Call(name, f"{method} {path}", region, access_key)
    action, parameters = matched
    given = _json(body) if protocol(name) == "rest-json" else {}
    return Call(name, action, region, access_key, {**given, **parameters})


def protocol(service_name: str) -> str:
    return service(service_name).metadata["protocol"]


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def nested(flat: Mapping[str, str]) -> dict[str, Any]:
    """`A.1.B=x` as {"A": [{"B": "x"}]}; `.member.` and `.entry.` steps of the query protocol go."""
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        steps = [step for step in key.split(".") if step not in ("member", "entry")]
        place = tree
        for step in steps[:-1]:
            below = place.setdefault(step, {})
            place = below if isinstance(below, dict) else {}
        place[steps[-1]] = value
    return {key: _lists(value) for key, value in tree.items()}


def _lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(key.isdigit() and int(key) <= MAX_LIST_INDEX for key in value):
        return [_lists(value[key]) for key in sorted(value, key=int)]
    return {key: _lists(item) for key, item in value.items()}


@functools.cache
def _routes(service_name: str) -> list[tuple[str, re.Pattern[str], frozenset[str], str, dict[str, str]]]:
    """(method, path pattern, query marks, action, query members) of a REST service."""
    routes = []
    model: Any = service(service_name)
    for action in model.operation_names:
        found = model.operation_model(action)
        path, _, marks = found.http["requestUri"].partition("?")
        literal = re.split(r"(\{[^}]+\})", path.rstrip("/") or "/")
        pattern = "".join(
            (f"(?P<{p.strip('{}+')}>{'.+' if '+' in p else '[^/]+'})" if p.startswith("{") else re.escape(p))
            for p in literal
        )
        names = frozenset(part.split("=")[0] for part in marks.split("&") if part)
        routes.append((found.http["method"], re.compile(pattern + "/?"), names, action, _query_members(found)))
    return routes


def _query_members(found: Any) -> dict[str, str]:
    members = found.input_shape.members.items() if found.input_shape else []
    return {
        shape.serialization.get("name", name): f"{shape.type_name}:{name}"
        for name, shape in members
        if shape.serialization.get("location") == "querystring"
    }


def match_rest(
    service_name: str, method: str, path: str, query: Mapping[str, list[str]]
) -> tuple[str, dict[str, Any]] | None:
    """The REST operation with the most query marks in common, and its path and query parameters.

    `path` is as it came, still quoted: an ARN in it holds quoted slashes.
    """
    best: tuple[int, str, dict[str, Any]] | None = None
    for verb, pattern, marks, action, members in _routes(service_name):
        found = pattern.fullmatch(path)
        if verb != method or not found or not marks <= query.keys():
            continue
        parameters: dict[str, Any] = {key: unquote(value) for key, value in found.groupdict().items()}
        for key, values in query.items():
            kind, _, name = members.get(key, "::").partition(":")
            if name:
                parameters[name] = values if kind == "list" else values[0]
        if best is None or len(marks) > best[0]:
            best = (len(marks), action, parameters)
    return (best[1], best[2]) if best else None


def refusal(service_name: str, status: int, code: str, message: str) -> Answer:
    """An error as the service's protocol writes it."""
    request = str(uuid.uuid4())
    kind = protocol(service_name)
    if kind in ("json", "rest-json"):
        content = {"__type": code, "message": message}
        headers = {"Content-Type": "application/json", "x-amzn-ErrorType": code, "x-amzn-RequestId": request}
        return Answer(status, headers, json.dumps(content).encode())
    inner = f"<Code>{code}</Code><Message>{escape(message)}</Message>"
    if kind == "ec2":
        text = f"<Response><Errors><Error>{inner}</Error></Errors><RequestID>{request}</RequestID></Response>"
    elif kind == "query":
        side = "Sender" if status < 500 else "Receiver"
        text = (
            f"<ErrorResponse><Error><Type>{side}</Type>{inner}</Error><RequestId>{request}</RequestId></ErrorResponse>"
        )
    else:
        text = f"<Error>{inner}<RequestId>{request}</RequestId></Error>"
    declared = '<?xml version="1.0" encoding="UTF-8"?>' + text
    return Answer(status, {"Content-Type": "text/xml"}, declared.encode())
