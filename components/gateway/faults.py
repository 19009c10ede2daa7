"""Every failure that a client may see, in OpenAI's error format, and never with an internal address.

Type names and the integer `code` are vLLM 0.32's own (`entrypoints/serve/exception_handling`), so that
a client can't tell the gateway's errors from a plain server's.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from .json_text import NotJson, read_json, write_json

KINDS = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    405: "MethodNotAllowedError",
    408: "RequestTimeoutError",
    413: "RequestEntityTooLargeError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
    501: "NotImplementedError",
    502: "BadGatewayError",
    503: "ServiceUnavailableError",
    504: "GatewayTimeoutError",
}
MESSAGE_LIMIT = 4000
"""Characters: pydantic repeats the offending input, which may be a whole prompt."""
ADDRESSES = re.compile(
    r"\b(?:https?|tcp|ipc|zmq)://[^\s'\"<>)]+"
    r"|\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?"
    r"|\[[0-9a-fA-F:]*:[0-9a-fA-F:]+\](?::\d+)?"
    r"|\b[\w-]+(?:\.[\w-]+)*\.(?:svc|pod|internal|local)(?:\.[\w-]+)*(?::\d+)?\b"
    r"|\b[\w.-]+:\d{2,5}\b(?=\s+ssl:)"
)


class Fault(Exception):
    """A request's end that the client is told. `reason` is a word for the metrics."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str | None = None,
        param: str | None = None,
        reason: str = "other",
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind or KINDS.get(status, "InternalServerError")
        self.param = param
        self.reason = reason
        self.retry_after_s = retry_after_s

    def body(self) -> bytes:
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}
        return write_json({"error": error})


class Refused(Fault):
    """An engine turned the request down (503, draining) before it took anything: another may have it."""


def without_addresses(text: str) -> str:
    """Hide URLs, IP addresses and cluster names; the rest of an upstream message is the client's to read."""
    return ADDRESSES.sub("<address>", text)[:MESSAGE_LIMIT]


def told(payload: Any) -> tuple[str | None, str | None, str | None]:
    """An upstream's (message, type, param), in vLLM's shape, FastAPI's `detail`, or a bare string."""
    if not isinstance(payload, dict):
        return None, None, None
    error = payload.get("error", payload.get("detail"))
    if isinstance(error, dict):
        kind, param = error.get("type"), error.get("param")
        return str(error.get("message", "")), kind and str(kind), param and str(param)
    return (None if error is None else str(error)), None, None


def from_error_event(payload: Any, tier: str) -> Fault:
    """An `{"error": ...}` event that came within a stream whose status was already 200."""
    message, kind, param = told(payload)
    error = payload.get("error") if isinstance(payload, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    text = without_addresses(message or f"the {tier} tier failed while it answered")
    return Fault(status, text, kind=kind, param=param, reason=f"{tier}_error")


def from_answer(tier: str, status: int, raw: bytes) -> Fault:
    """Turn a tier's error answer into the client's.

    The client is told what it can act on (a prompt that is too long, an unknown model, a busy engine).
    A status that speaks about the gateway's own call (401, 403, 405, an engine's 404) is a 502.
    """
    try:
        message, kind, param = told(read_json(raw))
    except NotJson:
        message, kind, param = None, None, None
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        text = without_addresses(message or f"the {tier} tier takes no requests now")
        return Refused(503, text, kind=kind, reason=f"{tier}_unavailable", retry_after_s=1)
    ours = {401, 403, 405} | (set() if tier == "render" else {404})
    if status in ours or not 400 <= status < 600:
        return Fault(502, f"the {tier} tier refused the gateway's call (status {status})", reason=f"{tier}_refused")
    text = without_addresses(message or f"the {tier} tier answered with status {status}")
    return Fault(status, text, kind=kind, param=param, reason=f"{tier}_error")
