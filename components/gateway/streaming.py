"""A streamed answer: the engines' tokens, derendered as they come, as the events of plain vLLM's server.

Samples run beside each other; within one choice, chunk follows chunk, since derender's state does.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from .answer import trim_logprobs
from .chain import Chain, gathered
from .derender import Derender
from .faults import Fault
from .job import Job
from .json_text import write_json
from .samples import Sample
from .stops import Hold, spoken

OBJECTS = {"chat": "chat.completion.chunk", "completion": "text_completion"}
TEXTS = {"chat": ("reasoning", "content"), "completion": ("text",)}


@dataclass
class Choice:
    """One choice on its way: derender's state, text held back, tokens so far."""

    hold: Hold
    state: Any = None
    tokens: int = 0
    finished: bool = False
    parsed: bool = False
    tools_called: bool = False
    begun: bool = False


class Streamed:
    def __init__(self, job: Job, chain: Chain, derender: Derender) -> None:
        self._job = job
        self._chain = chain
        self._derender = derender
        self._model: str | None = None
        options = job.samples[0].request.get("stream_options") or {}
        self._usage = bool(options.get("include_usage"))
        self._continuous = self._usage and bool(options.get("continuous_usage_stats"))

    async def writes(self) -> AsyncGenerator[bytes, None]:
        """Bytes to send, one or more whole events each, the last of them `[DONE]`. Raises: Fault."""
        begun = False
        async with aclosing(gathered([self._of(sample) for sample in self._job.samples])) as batches:
            async for batch in batches:
                if not begun:
                    begun = True
                    batch = [*self._opening(), *batch]
                yield b"".join(b"data: " + write_json(event) + b"\n\n" for event in batch)
        last = b"data: [DONE]\n\n"
        if self._usage:
            event = self._event([]) | {"usage": {k: v for k, v in self._job.usage().items() if v is not None}}
            last = b"data: " + write_json(event) + b"\n\n" + last
        yield last

    async def _of(self, sample: Sample) -> AsyncGenerator[dict[str, Any], None]:
        choices = {index: Choice(Hold(self._job.body)) for index in range(sample.n)}
        async with aclosing(gathered([self._chain.generate(sample, stream=True)])) as batches:
            async for batch in batches:
                for piece in batch:
                    if piece.get("usage"):
                        sample.usage = piece["usage"]
                for index, piece in merged(batch).items():
                    event = await self._written(sample, choices[index], piece)
                    if event is not None:
                        yield event
        if not all(choice.finished for choice in choices.values()):
            raise Fault(502, "the engine's answer broke off", reason="engine_broken")

    async def _written(self, sample: Sample, choice: Choice, piece: dict[str, Any]) -> dict[str, Any] | None:
        """One choice's new tokens as an event, or None where there is nothing to show."""
        job = self._job
        choice.tokens += len(piece["token_ids"])
        choice.finished = piece["finish_reason"] is not None
        shown = piece | {"token_ids": spoken(piece, include_stop=job.include_stop)}
        written, choice.state = await self._derender.chunk(job, sample, shown, choice.state, piece["token_ids"])
        self._model = self._model or written.get("model")
        made = {"index": sample.first + piece["index"]}
        made |= self._chat(choice, piece, written) if job.kind == "chat" else self._text(sample, choice, piece, written)
        if made.pop("empty") and not choice.finished:
            return None
        event = self._event([made])
        if self._continuous:
            prompt = len(sample.token_ids)
            event["usage"] = _counts(prompt, choice.tokens)
        return event

    def _parts(self, choice: Choice, piece: dict[str, Any], found: dict[str, Any], flush: bool) -> dict[str, str]:
        """The text that may be shown, by field, after what is held back for stop strings."""
        parts = [(field, found[field]) for field in TEXTS[self._job.kind] if found.get(field)]
        if choice.finished:
            out = choice.hold.finish(parts, piece["stop_reason"])
        else:
            out = choice.hold.take(parts, flush=flush)
        texts: dict[str, str] = {}
        for field, text in out:
            texts[field] = texts.get(field, "") + text
        return texts

    def _chat(self, choice: Choice, piece: dict[str, Any], written: dict[str, Any]) -> dict[str, Any]:
        job = self._job
        found = _compact(written.get("delta") or {})
        calls = found.get("tool_calls") or []
        delta: dict[str, Any] = self._parts(choice, piece, found, flush=bool(calls))
        if calls:
            delta["tool_calls"] = calls
        choice.tools_called |= bool(calls)
        choice.parsed |= bool(calls) or "reasoning" in found
        logprobs = None if job.hides_reasoning else written.get("logprobs")
        asked = job.body.get("return_token_ids") and written.get("token_ids") is not None
        empty = not delta and logprobs is None and not asked
        if not delta and not choice.parsed:
            delta = {"content": ""}
        made: dict[str, Any] = {"delta": delta, "logprobs": logprobs, "finish_reason": None, "empty": empty}
        trim_logprobs(job, made)
        made["token_ids"] = piece["token_ids"] if asked else None
        if choice.finished:
            reason = job.finish_reason(piece["finish_reason"], tools_called=choice.tools_called)
            made |= {"finish_reason": reason, "stop_reason": piece["stop_reason"]}
        return made

    def _text(self, sample: Sample, choice: Choice, piece: dict[str, Any], written: dict[str, Any]) -> dict[str, Any]:
        job = self._job
        text = self._parts(choice, piece, written, flush=False).get("text", "")
        logprobs, asked, opening = written.get("logprobs"), bool(job.body.get("return_token_ids")), not choice.begun
        if job.echoed:
            text = (job.echoed[sample.prompt] if opening else "") + ("" if job.only_echo else text)
        choice.begun = True
        return {
            "text": text,
            "logprobs": logprobs,
            "finish_reason": piece["finish_reason"],
            "stop_reason": piece["stop_reason"],
            "prompt_token_ids": sample.token_ids if asked and opening else None,
            "token_ids": piece["token_ids"] if asked else None,
            "empty": not text and logprobs is None and not asked,
        }

    def _opening(self) -> list[dict[str, Any]]:
        """The chat API first names the role, for each choice, and repeats the last message for `echo`."""
        job, events = self._job, []
        if job.kind != "chat":
            return events
        numbers = [sample.first + index for sample in job.samples for index in range(sample.n)]
        deltas: list[dict[str, str]] = [{"role": job.role, "content": ""}]
        deltas += [{"content": job.echoed[0]}] if job.echoed and job.echoed[0] else []
        prompt = job.samples[0].token_ids
        for number, delta in enumerate(deltas):
            for index in numbers:
                event = self._event([{"index": index, "delta": delta, "logprobs": None, "finish_reason": None}])
                if job.body.get("return_token_ids") and number == 0:
                    event["prompt_token_ids"] = prompt
                if self._continuous:
                    event["usage"] = _counts(len(prompt), 0)
                events.append(event)
        return events

    def _event(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        job = self._job
        return {
            "id": job.answer_id,
            "object": OBJECTS[job.kind],
            "created": job.created,
            "model": self._model or job.body.get("model"),
            "choices": choices,
        }


def merged(batch: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The chunks of a batch as one per choice, by the engine's index, in the order of arrival."""
    out: dict[int, dict[str, Any]] = {}
    for piece in batch:
        for choice in piece.get("choices") or []:
            index = choice["index"]
            tokens, content = list(choice.get("token_ids") or []), (choice.get("logprobs") or {}).get("content")
            if index not in out:
                out[index] = {"index": index, "token_ids": [], "logprobs": None}
            own = out[index]
            own["token_ids"] += tokens
            if content:
                own["logprobs"] = {"content": [*((own["logprobs"] or {}).get("content") or []), *content]}
            own |= {name: choice.get(name) for name in ("finish_reason", "stop_reason")}
    return out


def _counts(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}


def _compact(value: Any) -> Any:
    """Without nulls: plain vLLM's chunks carry only the fields that were set."""
    if isinstance(value, dict):
        return {name: _compact(inner) for name, inner in value.items() if inner is not None}
    return [_compact(inner) for inner in value] if isinstance(value, list) else value
