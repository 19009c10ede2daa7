"""The probe's client for engines that are not ours: it trusts no answer.

It follows no redirect (a key would travel along), reads no endless body, and compares every metrics
page with the last one of its URL: one URL must be one engine, or counters mean nothing.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from typing import Any

from components.check.process import Values, birth, counts, fallen, is_known, same_process
from components.release import probe
from components.release.probe import CannotMeasure

LARGEST_BODY_BYTES = 64 * 2**20
CHUNK_BYTES = 2**16
PAGE_LIMIT_S = 15.0
"""For what an engine answers without a GPU: its models, its metrics."""
METRICS = "/metrics"


class NeedsKey(CannotMeasure):
    """Answered 401 or 403."""


class Refused(CannotMeasure):
    """Answered with an error; `status` is HTTP's."""

    status = 0


class NoAnswer(CannotMeasure):
    """No connection, or nothing over it in time. `refused`: the host answered that nobody listens."""

    refused = False


class OtherProcess(CannotMeasure):
    """A URL's metrics come from another process than before."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        return None


class Client(probe.Client):
    """HTTP on one set of limits, for one check. `params` has by URL what a prefiller last told for its decoder."""

    def __init__(self, request_limit_s: float, key: str = "") -> None:
        super().__init__(request_limit_s, key)
        # As everywhere here: a proxy's time and answers would be measured along.
        self.opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
        self.births: dict[str, Values] = {}
        self.counts: dict[str, Values] = {}
        self.params: dict[str, Any] = {}

    def get(self, url: str) -> str:
        limit_s = min(self.limit_s, PAGE_LIMIT_S)
        text = self._read(urllib.request.Request(url, headers=self.headers), limit_s).decode(errors="replace")
        if url.endswith(METRICS):
            self._compare(url.removesuffix(METRICS), text)
        return text

    def post(self, url: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> Any:
        sent = {"Content-Type": "application/json", **self.headers, **(headers or {})}
        answer = _json(url, self._read(urllib.request.Request(url, json.dumps(body).encode(), sent), self.limit_s))
        if url.endswith("/v1/completions"):
            _check_completion(url, answer)
            if (body.get("kv_transfer_params") or {}).get("do_remote_decode"):
                self.params[url.removesuffix("/v1/completions")] = answer.get("kv_transfer_params")
        return answer

    def get_json(self, url: str) -> Any:
        return _json(url, self.get(url).encode())

    def series(self, url: str) -> dict[str, list[tuple[dict[str, str], float]]]:
        """An engine's metrics page. Raises CannotMeasure where that has no series of vLLM."""
        return probe.page(self, url)

    def forget(self, url: str) -> None:
        """Take whatever answers next as the URL's own process."""
        self.births.pop(url, None)
        self.counts.pop(url, None)

    def _compare(self, url: str, text: str) -> None:
        try:
            series = probe.parse_metrics(text)
        except ValueError as error:
            raise CannotMeasure(f"{url}{METRICS} is no Prometheus text: {error}") from None
        new, counted = birth(series), counts(series)
        known = self.births.setdefault(url, new)
        if not same_process(known, new):
            raise OtherProcess(f"{url}{METRICS} comes from another process than before")
        lower = fallen(self.counts.get(url, {}), counted)
        if lower and not is_known(known, new):
            raise OtherProcess(f"{url}{METRICS}: {lower} went backwards")
        self.counts[url] = counted

    def _read(self, request: urllib.request.Request, limit_s: float) -> bytes:
        deadline = time.monotonic() + limit_s
        try:
            with self.opener.open(request, timeout=limit_s) as response:
                return _body(request.full_url, response, deadline)
        except urllib.error.HTTPError as error:
            raise _refusal(request.full_url, error) from None
        except (OSError, http.client.HTTPException) as error:
            raise _silence(request.full_url, error, limit_s) from None


def _body(url: str, response: Any, deadline: float) -> bytes:
    """The whole body; a server that sends a byte now and then has the same time as any other."""
    parts, size = [], 0
    while chunk := response.read1(CHUNK_BYTES):
        parts.append(chunk)
        size += len(chunk)
        if size > LARGEST_BODY_BYTES:
            raise CannotMeasure(f"{url} answers without end: stopped after {LARGEST_BODY_BYTES >> 20} MiB")
        if time.monotonic() > deadline:
            raise NoAnswer(f"{url} does not answer: it was still sending when its time was over")
    if response.length:
        raise NoAnswer(f"{url} does not answer: it broke off, {response.length} bytes before its end")
    return b"".join(parts)


def _refusal(url: str, error: urllib.error.HTTPError) -> CannotMeasure:
    if error.code in (401, 403):
        return NeedsKey(f"{url} answered {error.code}: it wants an API key")
    try:
        text = error.read(300).decode(errors="replace")
    except (OSError, http.client.HTTPException):
        text = ""
    if 300 <= error.code < 400:
        text = f"it points to {error.headers.get('Location')}, which is not followed"
    refused = Refused(f"{url} answered {error.code}: {text}")
    refused.status = error.code
    return refused


def _silence(url: str, error: Exception, limit_s: float) -> NoAnswer:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        reason = f"nothing within {limit_s:g} s"
    silence = NoAnswer(f"{url} does not answer: {reason or type(error).__name__}")
    silence.refused = isinstance(reason, ConnectionRefusedError)
    return silence


def _json(url: str, body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        raise CannotMeasure(f"{url} answered no JSON: {body[:80].decode(errors='replace')!r}") from None


def _check_completion(url: str, answer: Any) -> None:
    try:
        text = answer["choices"][0]["text"]
    except (KeyError, IndexError, TypeError):
        text = None
    if not isinstance(text, str):
        raise CannotMeasure(f"{url} answered no completion: {json.dumps(answer)[:120]}")
