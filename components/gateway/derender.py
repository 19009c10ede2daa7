"""Tokens back to text, by the render tier: the bodies of /derender and its calls.

vLLM 0.32 `entrypoints/scale_out/derender`: a stream is derendered chunk by chunk, the state travels with
the calls. With a parser the server replays the whole answer for each chunk, so what has piled up while
one call ran goes into the next as one chunk.
"""

from __future__ import annotations

from typing import Any

from .chain import PATHS, Chain
from .job import Job
from .samples import Sample
from .stops import spoken

SEED_TOKENS = 32
"""Without a parser only the prompt's tail is read (vLLM's `convert_prompt_ids_to_tokens`: 7 tokens)."""
UNREAD_BY_PARSERS = ("logit_bias", "documents", "prompt_logprobs")
NO_PROMPT = "."
"""/derender validates the request anew, and refuses an empty prompt."""


class Derender:
    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._parsers = chain.settings.render_parsers == "yes"

    async def whole(self, job: Job, answers: list[dict[str, Any]]) -> dict[str, Any]:
        """The client's answer from the engines' whole answers, one per sample, as the render tier writes it."""
        prompts: dict[int, dict[str, Any]] = {}
        for sample, answer in zip(job.samples, answers, strict=True):
            prompt = prompts.setdefault(sample.prompt, {"token_ids": sample.token_ids, "choices": []})
            for choice in sorted(answer["choices"], key=lambda choice: choice["index"]):
                own = _choice(choice, job, sample) | {"index": len(prompt["choices"])}
                prompt["choices"].append(own)
        responses = [
            {"request_id": job.answer_id, "choices": prompt["choices"], "prompt_token_ids": prompt["token_ids"]}
            for prompt in prompts.values()
        ]
        ids = [prompt["token_ids"] for prompt in prompts.values()]
        if job.kind == "chat":
            body = {"generate_response": responses[0], "prompt_token_ids": ids[0], "prompt_tokens": len(ids[0])}
        else:
            body = {"generate_responses": responses, "prompt_token_ids": ids, "prompt_tokens": [len(i) for i in ids]}
        return await self._call(job, {"stream": False, **body})

    async def chunk(
        self, job: Job, sample: Sample, piece: dict[str, Any], state: Any, generated: list[int]
    ) -> tuple[dict[str, Any], Any]:
        """One choice's tokens of a stream; `generated` are all that the engine made, those that are not shown too.
        Returns the written choice (with `delta` or `text`) and the next state."""
        tokens = sample.token_ids
        if not self._parsers:
            tokens = tokens[-SEED_TOKENS:] if state is None else []
        body = {
            "stream": True,
            "generate_chunk": {"request_id": job.answer_id, "choices": [piece]},
            "stream_state": state,
            "prompt_token_ids": tokens,
        }
        answer = await self._call(job, body)
        choices = answer["chunk"]["choices"]
        written = (choices[0] if choices else {}) | {"model": answer["chunk"].get("model")}
        if job.kind == "chat" and piece.get("logprobs") and not written.get("logprobs"):
            written["logprobs"] = await self._logprobs(job, sample, generated, piece["logprobs"])
        return written, answer["stream_state"]

    async def _logprobs(self, job: Job, sample: Sample, generated: list[int], logprobs: Any) -> Any:
        """A piece's log-probabilities in words: with a parser a stream is derendered without them, and plain
        vLLM streams them all the same. What its parser makes of the piece is not read."""
        prompt = sample.token_ids[-1:]
        choice = {
            "index": 0,
            "token_ids": generated,
            "logprobs": logprobs,
            "finish_reason": "length",
            "stop_reason": None,
        }
        response = {"request_id": job.answer_id, "choices": [choice], "prompt_token_ids": prompt}
        body = {"stream": False, "generate_response": response, "prompt_token_ids": prompt, "prompt_tokens": 1}
        return (await self._call(job, body))["choices"][0].get("logprobs")

    async def _call(self, job: Job, body: dict[str, Any]) -> Any:
        request = _read_by_parsers(job) if self._parsers or not body["stream"] else None
        if request is None and job.body.get("skip_special_tokens") is False:
            request = _read_by_parsers(job)
        body |= {"model": job.body.get("model")}
        body |= {"chat_request" if job.kind == "chat" else "completion_request": request}
        with self._chain.telemetry.timed("derender"):
            return await self._chain.at_render(PATHS[job.kind] + "/derender", body, job.headers)


def _choice(choice: dict[str, Any], job: Job, sample: Sample) -> dict[str, Any]:
    """A choice as /derender takes it: it refuses one without tokens, which is then written and emptied later."""
    tokens = spoken(choice, include_stop=job.include_stop) or choice.get("token_ids") or sample.token_ids[-1:]
    kept = ("finish_reason", "stop_reason", "logprobs")
    return {"token_ids": tokens} | {name: choice.get(name) for name in kept}


def _read_by_parsers(job: Job) -> dict[str, Any]:
    """The client's request without the bulk: parsers read the tools and count the calls so far, not the texts.

    It goes along with each chunk; a long conversation would be sent thousands of times.
    """
    if job.kind == "completion":
        return job.body | {"prompt": NO_PROMPT, "echo": False, "prompt_logprobs": None}
    request = {name: value for name, value in job.body.items() if name not in UNREAD_BY_PARSERS}
    return request | {"messages": [_hollow(message) for message in job.body["messages"]]}


def _hollow(message: dict[str, Any]) -> dict[str, Any]:
    kept = {name: message[name] for name in ("role", "name", "tool_call_id", "tool_calls") if name in message}
    return kept | {"content": ""}
