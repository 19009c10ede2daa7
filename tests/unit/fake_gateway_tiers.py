"""Render, prefill and decode that speak vLLM 0.32's shapes without a model, for tests and benchmarks.

One character is one token. Shapes and refusals are read from `vllm/entrypoints/scale_out` and
`renderers/online_derenderer.py`, the traps among them: /render leaves out what equals a default,
/generate takes a missing `max_tokens` for "as many as fit", decode without valid KV answers 200 all the
same, KV can be taken once, /derender refuses a choice without tokens and two choices in one chunk.

`python -m tests.unit.fake_gateway_tiers TIER PORT` serves one tier as a process.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

MODEL = "fake"
EOS = 1
OFFSET = 100
LONGEST = 4096
PLACEHOLDER, IMAGE_TOKENS = 7, 4
DEFAULTS = {"n": 1, "max_tokens": 16, "temperature": 1.0, "seed": None, "logprobs": None, "min_tokens": 0}
PASSED = (
    "seed",
    "stop",
    "min_tokens",
    "include_stop_str_in_output",
    "stop_token_ids",
    "temperature",
    "n",
    "vllm_xargs",
)


def tokens_of(text: str) -> list[int]:
    return [ord(character) + OFFSET for character in text]


def text_of(tokens: list[int], *, special: bool = False) -> str:
    return "".join(("<eos>" if special else "") if token == EOS else chr(token - OFFSET) for token in tokens)


def refusal(status: int, message: str, kind: str = "BadRequestError") -> web.Response:
    body = {"error": {"message": message, "type": kind, "param": None, "code": status}}
    return web.json_response(body, status=status)


@dataclass
class Seen:
    """What a server was sent: path, body, headers."""

    path: str
    body: Any
    headers: Mapping[str, str]


@dataclass
class Tier:
    """A server of one tier. The fields below `seen` are what tests turn."""

    seen: list[Seen] = field(default_factory=list)
    status: int = 200
    delay_s: float = 0.0
    aborted: int = 0
    message: str = "refused"

    def app(self) -> web.Application:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/{path:.*}", self._post)
        app.router.add_get("/v1/models", self._models)
        return app

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response(
            {"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": LONGEST}]}
        )

    async def _post(self, request: web.Request) -> web.StreamResponse:
        try:
            body = await request.json()
            self.seen.append(Seen(request.path, body, request.headers))
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            if self.status != 200:
                return refusal(self.status, self.message)
            return await self.answer(request, body)
        except (asyncio.CancelledError, ConnectionResetError):
            self.aborted += 1
            raise

    async def answer(self, request: web.Request, body: Any) -> web.StreamResponse:
        raise NotImplementedError


@dataclass
class Render(Tier):
    """`parsers`: <think>..</think> is reasoning, <tool>name|arguments</tool> is a call."""

    parsers: bool = False

    async def answer(self, request: web.Request, body: Any) -> web.StreamResponse:
        path = request.path
        if path == "/detokenize":
            return web.json_response({"prompt": text_of(body["tokens"])})
        if body.get("model") not in (None, MODEL):
            return refusal(404, f"The model `{body['model']}` does not exist.", "NotFoundError")
        if path.endswith("/derender"):
            chat = "chat" in path
            if not chat and not (body.get("completion_request") or {"prompt": "."})["prompt"]:
                return refusal(400, "Either prompt or prompt_embeds must be provided and non-empty.")
            if body.get("stream"):
                return self._chunk(body, chat)
            return self._whole_chat(body) if chat else self._whole_completion(body)
        return self._render(path, body, request.headers["X-Request-Id"])

    def _render(self, path: str, body: Any, name: str) -> web.Response:
        if "chat" in path:
            if not body.get("messages"):
                return refusal(400, "messages: Field required")
            if items := images_of(body):
                return web.json_response(self._with_images(body, name, items))
            prompts: list[Any] = ["".join(str(m.get("content")) for m in body["messages"])]
        else:
            given = body["prompt"]
            prompts = given if isinstance(given, list) and given and not isinstance(given[0], int) else [given]
        default = 16 if "chat" not in path else LONGEST
        made = []
        for number, prompt in enumerate(prompts):
            tokens = tokens_of(prompt) if isinstance(prompt, str) else prompt
            if len(tokens) > LONGEST:
                return refusal(400, f"Input length ({len(tokens)}) exceeds model's maximum context length ({LONGEST}).")
            params = {key: body[key] for key in PASSED if body.get(key) is not None}
            params["max_tokens"] = body.get("max_completion_tokens") or body.get("max_tokens") or default
            chat = "chat" in path
            logprobs = (body.get("top_logprobs", 0) if body.get("logprobs") else None) if chat else body.get("logprobs")
            params["logprobs"] = logprobs
            params["extra_args"] = params.pop("vllm_xargs", None)
            if body.get("prompt_logprobs") is not None:
                params |= {"prompt_logprobs": body["prompt_logprobs"], "skip_reading_prefix_cache": True}
            if isinstance(params.get("stop"), str):
                params["stop"] = [params["stop"]]
            params = {key: value for key, value in params.items() if value != DEFAULTS.get(key)}
            made.append(self._rendered(body, f"{name}-{number}", tokens, params))
        return web.json_response(made[0] if "chat" in path else made)

    def _rendered(self, body: Any, name: str, tokens: list[int], params: Any) -> dict[str, Any]:
        stream = bool(body.get("stream"))
        options = body.get("stream_options") if stream else None
        return {
            "request_id": name, "token_ids": tokens, "features": None, "sampling_params": params,
            "model": body.get("model"), "stream": stream, "stream_options": options, "cache_salt": None, "priority": 0,
            "kv_transfer_params": None, "ec_transfer_params": None, "output_mode": "tokens",
        }  # fmt: skip

    def _with_images(self, body: Any, name: str, items: list[Any]) -> dict[str, Any]:
        """Each image is `IMAGE_TOKENS` placeholders; its hash is its `uuid`, or made from its URL."""
        tokens = tokens_of("seen: ") + [PLACEHOLDER] * (IMAGE_TOKENS * len(items))
        params = {"max_tokens": LONGEST, **({"n": body["n"]} if body.get("n") else {})}
        hashes = [item.get("uuid") or f"hash of {item['image_url']['url']}" for item in items]
        places = [{"offset": 6 + IMAGE_TOKENS * at, "length": IMAGE_TOKENS} for at in range(len(items))]
        features = {
            "mm_hashes": {"image": hashes}, "mm_placeholders": {"image": places}, "mm_metadata": None,
            "kwargs_data": {"image": [item["image_url"]["url"] for item in items]},
        }  # fmt: skip
        salt = {"cache_salt": body.get("cache_salt")}
        return self._rendered(body, name, tokens, params) | {"features": features} | salt

    def _whole_chat(self, body: Any) -> web.Response:
        gen = body["generate_response"]
        if self.parsers and body.get("chat_request") is None:
            return refusal(400, "chat_request is required when a tool or reasoning parser is configured")
        choices = []
        for choice in gen["choices"]:
            if not choice["token_ids"]:
                return refusal(400, f"choice {choice['index']} has empty or null token_ids")
            text = text_of(choice["token_ids"], special=self.parsers)
            reasoning, content, calls = parsed(text) if self.parsers else (None, text, [])
            message: dict[str, Any] = {"role": "assistant", "content": content, "reasoning": reasoning, "refusal": None}
            if calls:
                message["tool_calls"] = [{"id": uuid.uuid4().hex, "type": "function", "function": c} for c in calls]
            choices.append({
                "index": choice["index"], "message": message, "logprobs": spelled(choice.get("logprobs")),
                "finish_reason": choice["finish_reason"], "stop_reason": choice["stop_reason"], "token_ids": None,
            })  # fmt: skip
        return web.json_response(self._stamped(body, gen["request_id"], "chat.completion", choices))

    def _whole_completion(self, body: Any) -> web.Response:
        choices = []
        for gen in body["generate_responses"]:
            for choice in gen["choices"]:
                if not choice["token_ids"]:
                    return refusal(400, "empty or null token_ids")
                choices.append({
                    "index": len(choices), "text": text_of(choice["token_ids"]), "logprobs": None,
                    "finish_reason": choice["finish_reason"], "stop_reason": choice["stop_reason"],
                })  # fmt: skip
        return web.json_response(self._stamped(body, "generate-tokens-x", "text_completion", choices))

    def _stamped(self, body: Any, name: str, kind: str, choices: list[Any]) -> dict[str, Any]:
        usage = {"prompt_tokens": 0, "total_tokens": 0, "completion_tokens": 0}
        return {
            "id": name, "object": kind, "created": 1, "model": body.get("model") or MODEL, "choices": choices,
            "usage": usage, "kv_transfer_params": {"leak": 1}, "system_fingerprint": None,
        }  # fmt: skip

    def _chunk(self, body: Any, chat: bool) -> web.Response:
        chunk, state = body["generate_chunk"], body["stream_state"] or {"tokens": [], "role_sent": False}
        if len(chunk["choices"]) > 1:
            return refusal(400, "at most one choice per chunk")
        if chat and self.parsers and (body.get("chat_request") is None or body.get("prompt_token_ids") is None):
            return refusal(400, "chat_request and prompt_token_ids are required when a parser is configured")
        choices = []
        for choice in chunk["choices"]:
            tokens = choice["token_ids"] or []
            made: dict[str, Any] = {
                "index": choice["index"], "token_ids": None,
                "logprobs": None if chat and self.parsers else spelled(choice.get("logprobs")),
                "finish_reason": choice["finish_reason"], "stop_reason": choice["stop_reason"],
            }  # fmt: skip
            if chat:
                made["delta"] = self._delta(state, tokens)
            else:
                made["text"] = text_of(tokens)
            state = {"tokens": state["tokens"] + tokens, "role_sent": True}
            choices.append(made)
        answer = {"id": chunk["request_id"], "model": body.get("model") or MODEL, "choices": choices, "usage": None}
        return web.json_response({"chunk": answer, "stream_state": state})

    def _delta(self, state: Any, tokens: list[int]) -> dict[str, Any]:
        role = None if state["role_sent"] else "assistant"
        if not self.parsers:
            return {"role": role, "content": text_of(tokens) or None, "reasoning": None}
        before = parsed(text_of(state["tokens"], special=True), partial=True)
        after = parsed(text_of(state["tokens"] + tokens, special=True), partial=True)
        delta: dict[str, Any] = {
            "role": role,
            "reasoning": (after[0] or "")[len(before[0] or "") :] or None,
            "content": (after[1] or "")[len(before[1] or "") :] or None,
        }
        if len(after[2]) > len(before[2]):
            new = after[2][len(before[2]) :]
            delta["tool_calls"] = [
                {"id": f"call-{i}", "type": "function", "index": len(before[2]) + i, "function": call}
                for i, call in enumerate(new)
            ]
        return delta


def parsed(text: str, partial: bool = False) -> tuple[str | None, str | None, list[dict[str, str]]]:
    """(reasoning, content, calls). `partial`: a tag that has only begun is not shown yet."""
    reasoning = None
    if text.startswith("<think>"):
        inside, _, rest = text[7:].partition("</think>")
        reasoning, text = inside, rest
    calls = [{"name": n, "arguments": a} for n, a in re.findall(r"<tool>(\w+)\|(.*?)</tool>", text)]
    text = re.sub(r"<tool>.*?</tool>", "", text)
    if partial:
        text = text.split("<")[0]
        reasoning = reasoning.split("<")[0] if reasoning is not None else None
    return reasoning, text or None, calls


def images_of(body: Any) -> list[Any]:
    contents = [message.get("content") for message in body["messages"]]
    return [part for content in contents if isinstance(content, list) for part in content
            if part["type"] == "image_url"]  # fmt: skip


def spelled(logprobs: Any) -> Any:
    if logprobs is None:
        return None
    entries = [
        {
            "token": text_of([entry["token_id"]]),
            "logprob": entry["logprob"],
            "bytes": [],
            "top_logprobs": [
                {"token": text_of([top["token_id"]]), "logprob": top["logprob"], "bytes": []}
                for top in entry["top_logprobs"]
            ],
        }
        for entry in logprobs["content"]
    ]
    return {"content": entries}


@dataclass
class Encoder(Tier):
    """Ends each request without a token and names its items' embeddings. `silent`: it names none."""

    silent: bool = False

    async def answer(self, request: web.Request, body: Any) -> web.StreamResponse:
        features = body["features"]
        for kind, places in features["mm_placeholders"].items():
            if any(place["offset"] + place["length"] > len(body["token_ids"]) for place in places):
                return refusal(400, "placeholders lie outside the prompt")
            assert len(features["kwargs_data"][kind]) == len(places)
        hashes = [] if self.silent else [one for given in features["mm_hashes"].values() for one in given]
        params = {one: {"item_indices": [0], "metadata": {}, "peer_host": "10.1.2.3"} for one in hashes}
        choice = {"index": 0, "finish_reason": "stop", "stop_reason": None, "token_ids": [], "logprobs": None}
        return web.json_response({
            "request_id": body["request_id"], "model": MODEL, "created": 1, "choices": [choice],
            "usage": {"prompt_tokens": len(body["token_ids"]), "completion_tokens": 0, "total_tokens": 4},
            "kv_transfer_params": None, "ec_transfer_params": params or None, "output_mode": "tokens",
        })  # fmt: skip


@dataclass
class Cluster:
    """What the engines share: KV that prefill keeps, KV transfers, and decodes that prefilled by themselves."""

    kept: dict[str, str] = field(default_factory=dict)
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)
    transfers: int = 0
    local_prefills: int = 0


@dataclass
class Engine(Tier):
    tier: str = "decode"
    cluster: Cluster = field(default_factory=Cluster)
    reply: str = "hello"
    token_s: float = 0.0
    push: bool = False
    mooncake: bool = False
    registered: bool = True
    without_kv: bool = False
    die_after: int | None = None
    error_after: int | None = None
    unfinished: bool = False
    engine_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def app(self) -> web.Application:
        """With Mooncake's bootstrap server on the same port, and vLLM's own answer there (`mooncake_utils.py`)."""
        app = super().app()
        app.router.add_get("/query", self._query)
        return app

    async def _query(self, _: web.Request) -> web.Response:
        if not self.registered:
            return web.json_response({})
        return web.json_response({"0": {"engine_id": self.engine_id, "worker_addr": {"0": {"0": "tcp://x:1"}}}})

    async def answer(self, request: web.Request, body: Any) -> web.StreamResponse:
        name = "generate-tokens-" + request.headers.get("X-Request-Id", body["request_id"])
        params, kv = body["sampling_params"], body.get("kv_transfer_params") or {}
        told = None
        if self.tier == "prefill":
            told = await self._keep(name, kv, params)
        elif self.tier == "decode":
            await self._take(name, kv, params)
        most = params.get("max_tokens", LONGEST)
        outputs = [self._output(params, most, index) for index in range(params.get("n", 1))]
        counts = {"prompt_tokens": len(body["token_ids"]), "completion_tokens": sum(len(o[0]) for o in outputs)}
        usage: dict[str, Any] = counts | {"total_tokens": sum(counts.values())}
        if self.tier == "prefill":
            usage["prompt_tokens_details"] = {"cached_tokens": 3}
        if body.get("stream"):
            return await self._stream(request, name, params, outputs, usage, body)
        if self.die_after is not None and request.transport is not None:
            request.transport.close()
        choices = [
            {"index": i, "finish_reason": f, "stop_reason": s, "token_ids": t, "logprobs": logprobs_of(t, params)}
            for i, (t, f, s) in enumerate(outputs)
        ]
        prompt_logprobs = [None, {"5": {"logprob": -1.0}}] if params.get("prompt_logprobs") is not None else None
        return web.json_response({
            "request_id": name, "model": MODEL, "created": 1, "usage": usage, "choices": choices,
            "prompt_logprobs": prompt_logprobs, "kv_transfer_params": told, "output_mode": "tokens",
        })  # fmt: skip

    async def _keep(self, name: str, kv: Any, params: Any) -> dict[str, Any] | None:
        if not kv.get("do_remote_decode") or self.without_kv:
            return None
        assert params["max_tokens"] == 1 and params["n"] == 1 and "min_tokens" not in params
        held = kv["transfer_id"] if self.mooncake else f"{name}-{uuid.uuid4().hex[:8]}"
        async with self.cluster.arrived:
            self.cluster.kept[held] = name
            self.cluster.arrived.notify_all()
        if self.mooncake:
            return None
        return {
            "do_remote_prefill": True, "do_remote_decode": False, "remote_block_ids": [[1, 2]],
            "remote_engine_id": self.engine_id, "remote_request_id": held, "remote_host": "10.1.2.3",
            "remote_port": 5600, "tp_size": 1, "pp_size": 1, "transfer_mode": "push" if self.push else "pull",
        }  # fmt: skip

    async def _take(self, name: str, kv: Any, params: Any) -> None:
        cluster = self.cluster
        if self.push:
            assert all(kv.get(key) is not None for key in ("remote_engine_id", "remote_host", "remote_port", "tp_size"))
            async with cluster.arrived:
                await cluster.arrived.wait_for(lambda: name in cluster.kept.values())
            held = next(key for key, value in cluster.kept.items() if value == name)
        elif self.mooncake:
            held = kv.get("transfer_id", "") if kv.keys() >= {"remote_engine_id", "remote_bootstrap_addr"} else ""
            async with cluster.arrived:
                await cluster.arrived.wait_for(lambda: not held or held in cluster.kept)
        else:
            held = kv.get("remote_request_id", "")
        skips = params.get("skip_reading_prefix_cache") or params.get("prompt_logprobs") is not None
        if kv.get("do_remote_prefill") and cluster.kept.pop(held, None) and not skips:
            cluster.transfers += 1
        else:
            cluster.local_prefills += 1

    def _output(self, params: Any, most: int, index: int) -> tuple[list[int], str, Any]:
        """(tokens, finish reason, stop reason); `{seed}` in the reply is the seed, `{index}` the choice."""
        reply = self.reply.replace("{seed}", str(params.get("seed"))).replace("{index}", str(index))
        at = [(reply.find(stop) + len(stop), stop) for stop in params.get("stop") or [] if stop in reply]
        if at and min(at)[0] <= most:
            end, stop = min(at)
            return tokens_of(reply[:end]), "stop", stop
        for token in params.get("stop_token_ids") or []:
            if token in tokens_of(reply)[:most]:
                return tokens_of(reply)[: tokens_of(reply).index(token) + 1], "stop", token
        tokens = [*tokens_of(reply), EOS]
        return (tokens, "stop", None) if len(tokens) <= most else (tokens[:most], "length", None)

    async def _stream(
        self, request: web.Request, name: str, params: Any, outputs: list[Any], usage: Any, body: Any
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        longest = max(len(tokens) for tokens, _, _ in outputs)
        for at in range(longest):
            if at == self.die_after:
                assert request.transport is not None
                request.transport.abort()
                return response
            if at == self.error_after:
                error = {"message": "Internal error at 10.1.2.3:8000", "type": "InternalServerError", "code": 500}
                await response.write(f"data: {json.dumps({'error': error})}\n\ndata: [DONE]\n\n".encode())
                return response
            for index, (tokens, finish, stop) in enumerate(outputs):
                if at < len(tokens):
                    last = at == len(tokens) - 1 and not self.unfinished
                    choice = {
                        "index": index, "token_ids": [tokens[at]], "logprobs": logprobs_of([tokens[at]], params),
                        "finish_reason": finish if last else None, "stop_reason": stop if last else None,
                    }  # fmt: skip
                    chunk = {"request_id": name, "choices": [choice], "usage": None, "output_mode": "tokens"}
                    await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
            await asyncio.sleep(self.token_s)
        if (body.get("stream_options") or {}).get("include_usage"):
            chunk = {"request_id": name, "choices": [], "usage": usage, "output_mode": "tokens"}
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response


def logprobs_of(tokens: list[int], params: Any) -> Any:
    if params.get("logprobs") is None:
        return None
    top = max(params["logprobs"], 1)
    return {
        "content": [
            {"token_id": t, "logprob": -0.5, "rank": 1, "top_logprobs": [{"token_id": t, "logprob": -0.5}] * top}
            for t in tokens
        ]
    }


def main() -> None:
    tier, port = sys.argv[1], int(sys.argv[2])
    server = Render() if tier == "render" else Loose(tier=tier, reply="x" * 64, token_s=0.005)
    web.run_app(server.app(), host="127.0.0.1", port=port, print=None, handler_cancellation=True, access_log=None)


@dataclass
class Loose(Engine):
    """An engine alone in its process: it can't see what prefill kept, and takes every KV for good."""

    async def _take(self, name: str, kv: Any, params: Any) -> None:
        if not kv.get("remote_request_id"):
            self.cluster.local_prefills += 1


if __name__ == "__main__":
    main()
