"""The HTTP server that clients talk to: routes, keys, request ids, and how a request's failure is told."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

from aiohttp import web

from .admission import Admission, ByteBudget
from .answer import whole
from .body import read
from .chain import Chain
from .connections import Connections
from .derender import Derender
from .encode import Encode, without_names
from .faults import Fault
from .job import Job
from .json_text import write_json
from .keys import Keys
from .samples import media_bytes, split
from .sanitize import strip
from .streaming import Streamed
from .telemetry import Telemetry
from .written import ABOUT, About, Written

REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
OPEN = ("/health", "/liveness")
TRACE = ("traceparent", "tracestate")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
log = logging.getLogger("gateway")


class Server:
    def __init__(self, chain: Chain, keys: Keys, telemetry: Telemetry, connections: Connections) -> None:
        settings = chain.settings
        self.settings = settings
        self.chain = chain
        self.draining = False  # not ready any more; `closed` then refuses
        self.closed = False
        self.admission = Admission(settings.max_in_flight, settings.max_queued, settings.queue_limit_s)
        self.budget = ByteBudget(settings.body_memory_bytes)
        self._keys = keys
        self._telemetry = telemetry
        self._connections = connections
        self._derender = Derender(chain)
        self._encode = Encode(chain.upstream) if settings.encoder_tier == "yes" else None

    def app(self) -> web.Application:
        # aiohttp's own size limit is for its read() and json(), which nobody calls here
        app = web.Application(middlewares=[self._guard])
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/completions", self._completion)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/liveness", self._liveness)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Stamp, check and count each request; a failure before the first byte becomes its answer."""
        self._connections.spoke(request)
        about = request[ABOUT] = _about(request)
        response: web.StreamResponse | None = None
        try:
            if request.path not in OPEN:
                self._keys.check(request.headers.get("Authorization"))
                self._refuse_when_closed()
            response = await handler(request)
        except asyncio.CancelledError:
            self._telemetry.disconnects.inc()
            raise
        except (Fault, web.HTTPException) as fault:
            response = self._told(request, fault)
        except ConnectionResetError:
            self._telemetry.disconnects.inc()
            raise
        except Exception:
            log.exception("request %s failed", about.headers["X-Request-Id"])
            response = self._told(request, Fault(500, "internal error of the gateway", reason="internal"))
        if not response.prepared:
            response.headers["X-Request-Id"] = about.headers["X-Request-Id"]
        self._telemetry.requests.labels(about.route, str(about.status or response.status)).inc()
        return response

    def _refuse_when_closed(self) -> None:
        if self.closed:
            raise Fault(503, "the gateway is shutting down", reason="draining", retry_after_s=1)

    def _told(self, request: web.Request, fault: Fault | web.HTTPException) -> web.Response:
        if isinstance(fault, web.HTTPException):
            fault = Fault(fault.status, f"{request.method} {request.path}: {fault.reason}", reason="no_such_route")
        if fault.status in (401, 404, 405, 408, 413, 429) or fault.status >= 500:
            self._telemetry.rejected.labels(fault.reason).inc()
        if fault.status >= 500:
            log.warning("request %s: %d %s", request[ABOUT].headers["X-Request-Id"], fault.status, fault.message)
        response = web.Response(status=fault.status, body=fault.body(), content_type="application/json")
        if fault.retry_after_s is not None:
            response.headers["Retry-After"] = str(fault.retry_after_s)
        if fault.status in (408, 413, 429) or self.closed:
            response.force_close()  # the rest of the body is not worth reading
        return response

    async def _health(self, _: web.Request) -> web.Response:
        """Ready: not draining, and each tier that text needs has a pod."""
        missing = [tier for tier in self.chain.upstream.pods.without() if tier != "encoder"]
        if self.draining or missing:
            why = "draining" if self.draining else "no pod of " + ", ".join(missing)
            return web.json_response({"status": why}, status=503)
        return web.Response(status=200)

    async def _liveness(self, _: web.Request) -> web.Response:
        return web.Response(status=200)

    async def _models(self, request: web.Request) -> web.Response:
        payload = await self.chain.upstream.get("render", "/v1/models", request[ABOUT].headers)
        return web.Response(body=payload, content_type="application/json")

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._serve("chat", request)

    async def _completion(self, request: web.Request) -> web.StreamResponse:
        return await self._serve("completion", request)

    async def _serve(self, kind: str, request: web.Request) -> web.StreamResponse:
        async with read(request, self.settings, self.budget) as body, self.admission.slot():
            for name in strip(body):
                self._telemetry.stripped.labels(name).inc()
            if self.settings.model and not body.get("model"):
                body["model"] = self.settings.model
            out = Written(request, self.settings.write_limit_s)
            try:
                async with asyncio.timeout(self.settings.request_limit_s):
                    job = await self._rendered(kind, body, request[ABOUT].headers)
                    with self.budget.holding(media_bytes(job.samples)):
                        if (answer := await self._answered(job, out)) is not None:
                            return answer
            except (Fault, TimeoutError) as failure:
                fault = failure if isinstance(failure, Fault) else _too_long()
                if out.response is None:
                    raise fault from None
                await self._broken_off(request, out, fault)
            return await out.end()

    async def _answered(self, job: Job, out: Written) -> web.Response | None:
        """The whole answer; None when it was streamed."""
        if self._encode:
            await self._encode.all(job.samples)
        if job.streams:
            await self._stream(job, out)
            return None
        answer = await whole(job, self.chain, self._derender)
        self._first_byte(out.request)
        return web.Response(body=write_json(answer), content_type="application/json")

    async def _stream(self, job: Job, out: Written) -> None:
        async with aclosing(Streamed(job, self.chain, self._derender).writes()) as writes:
            async for piece in writes:
                if out.response is None:
                    self._first_byte(out.request)
                await out.write(piece)

    async def _rendered(self, kind: str, body: dict[str, Any], headers: dict[str, str]) -> Job:
        job = Job(kind, body, headers)
        if self._encode:
            without_names(body)
        rendered = await self.chain.render(kind, body, headers)
        by_id = self.settings.dispatch != "sequential"
        job.samples = split(
            rendered,
            pairs=self.settings.topology != "collocated",
            limit=self.settings.pairs_limit,
            headers=headers,
            # KV that is sent before prefill answers is matched by this alone: with a client's own id, two could meet.
            unique=f"-{secrets.token_hex(16)}" if by_id else "",
        )
        job.echoed = await self._echoed(job, rendered)
        return job

    async def _echoed(self, job: Job, rendered: list[dict[str, Any]]) -> list[str]:
        """The text that `echo` puts before each prompt's answers; [] without `echo`."""
        body = job.body
        if not body.get("echo"):
            return []
        if job.kind == "chat":
            last = body["messages"][-1]
            content = last.get("content") if last.get("role") == job.role else None
            return [content] if isinstance(content, str) else []
        if body.get("logprobs") is not None:
            raise Fault(400, "`echo` with `logprobs` is not served here", reason="not_served", param="echo")
        if body.get("return_token_ids"):
            return [""] * len(rendered)
        prompts = body.get("prompt")
        texts = [prompts] if isinstance(prompts, str) else prompts
        if isinstance(texts, list) and len(texts) == len(rendered) and all(isinstance(text, str) for text in texts):
            return texts
        return [await self._detokenized(body, one["token_ids"], job.headers) for one in rendered]

    async def _detokenized(self, body: dict[str, Any], token_ids: list[int], headers: dict[str, str]) -> str:
        asked = {"model": body.get("model"), "tokens": token_ids}
        return (await self.chain.at_render("/detokenize", asked, headers))["prompt"]

    def _first_byte(self, request: web.Request) -> None:
        self._telemetry.first_byte.labels(request[ABOUT].route).observe(time.monotonic() - request[ABOUT].accepted_s)

    async def _broken_off(self, request: web.Request, out: Written, fault: Fault) -> None:
        """The status was 200 already: the failure is an event, and `[DONE]` stays away."""
        log.warning("request %s broke off: %s", request[ABOUT].headers["X-Request-Id"], fault.message)
        request[ABOUT].status = fault.status
        self._telemetry.rejected.labels(fault.reason).inc()
        await out.write(b"data: " + fault.body() + b"\n\n")


def _too_long() -> Fault:
    return Fault(504, "the request took too long", reason="request_timeout")


def _about(request: web.Request) -> About:
    """A client's own request id is taken if it is a plain word: it goes into headers, ids and logs."""
    given = request.headers.get("X-Request-Id", "")
    name = given if REQUEST_ID.fullmatch(given) else secrets.token_hex(16)
    resource = request.match_info.route.resource
    headers = {"X-Request-Id": name} | {one: request.headers[one] for one in TRACE if one in request.headers}
    return About(headers, resource.canonical if resource else "other", time.monotonic())
