"""A whole answer: all samples, one derender call, and the last touches that plain vLLM's own server gives.

/derender of vLLM 0.32 leaves these out of a whole answer: `tool_calls` as finish reason, `parallel_tool_calls`,
the cut at a stop string, `return_token_ids` of completions, `echo`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

from .chain import Chain
from .derender import Derender
from .faults import Fault
from .job import Job
from .samples import Sample
from .stops import cut, spoken


async def whole(job: Job, chain: Chain, derender: Derender) -> dict[str, Any]:
    """The client's answer. Raises: Fault."""
    answers = await all_of([_generated(chain, sample) for sample in job.samples])
    written = await derender.whole(job, answers)
    choices = [(sample, choice) for sample, answer in zip(job.samples, answers, strict=True) for choice in _of(answer)]
    if len(choices) != len(written["choices"]):
        raise Fault(502, "the render tier answered with another number of choices", reason="render_error")
    for index, ((sample, engine), choice) in enumerate(zip(choices, written["choices"], strict=True)):
        choice["index"] = index
        (_touch_chat if job.kind == "chat" else _touch_completion)(job, sample, engine, choice)
    written |= {"id": job.answer_id, "created": job.created, "usage": job.usage()}
    written |= {"kv_transfer_params": None, "ec_transfer_params": None}
    if job.kind == "chat":
        first = job.samples[0]
        asked = bool(job.body.get("return_token_ids"))
        written["prompt_token_ids"] = first.token_ids if asked else None
        written["prompt_logprobs"] = _prompt_logprobs(first, answers[0])
    return written


async def _generated(chain: Chain, sample: Sample) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    async with aclosing(chain.generate(sample, stream=False)) as pieces:
        async for piece in pieces:
            answer = piece
    sample.usage = answer.get("usage")
    if len(answer.get("choices") or []) != sample.n:
        raise Fault(502, "the engine answered with another number of choices", reason="engine_error")
    return answer


def _of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted(answer["choices"], key=lambda choice: choice["index"])


def _prompt_logprobs(sample: Sample, answer: dict[str, Any]) -> Any:
    return (answer if sample.prefilled is None else sample.prefilled).get("prompt_logprobs")


def _touch_chat(job: Job, sample: Sample, engine: dict[str, Any], choice: dict[str, Any]) -> None:
    message = choice["message"]
    calls = message.get("tool_calls") or []
    if not spoken(engine, include_stop=job.include_stop):
        message |= {"content": "", "reasoning": None}
        calls = []
    stop = engine.get("stop_reason")
    if isinstance(stop, str) and not job.include_stop:
        for field in ("reasoning", "content"):
            shown = cut(message.get(field) or "", stop, late=bool(job.body.get("min_tokens")))
            if shown is not None:
                message[field] = shown
                break
    if job.body.get("parallel_tool_calls") is False:
        calls = calls[:1]
    message.pop("tool_calls", None)
    if calls:
        message["tool_calls"] = calls
    forced = job.body.get("tool_choice") == "required"
    choice["finish_reason"] = job.finish_reason(engine.get("finish_reason"), tools_called=bool(calls) or forced)
    message["role"] = job.role
    if job.echoed:
        message["content"] = job.echoed[0] + (message.get("content") or "")
    if job.hides_reasoning:
        choice["logprobs"] = None
    trim_logprobs(job, choice)
    if choice.get("token_ids") is not None:
        choice["token_ids"] = engine.get("token_ids")


def _touch_completion(job: Job, sample: Sample, engine: dict[str, Any], choice: dict[str, Any]) -> None:
    stop = engine.get("stop_reason")
    if not spoken(engine, include_stop=job.include_stop):
        choice["text"] = ""
    elif isinstance(stop, str) and not job.include_stop:
        shown = cut(choice["text"], stop, late=bool(job.body.get("min_tokens")))
        choice["text"] = choice["text"] if shown is None else shown
    if job.echoed:
        choice["text"] = job.echoed[sample.prompt] + ("" if job.only_echo else choice["text"])
    choice["prompt_logprobs"] = _prompt_logprobs(sample, engine)
    if job.body.get("return_token_ids"):
        choice |= {"token_ids": engine.get("token_ids"), "prompt_token_ids": sample.token_ids}


def trim_logprobs(job: Job, choice: dict[str, Any]) -> None:
    """The engine's token protocol sends at least one candidate; the chat API sends `top_logprobs` of them.
    It sends a token without text with no bytes, where /derender says nothing of them."""
    most = job.body.get("top_logprobs") or 0
    for entry in (choice.get("logprobs") or {}).get("content") or []:
        if most >= 0:
            entry["top_logprobs"] = entry["top_logprobs"][:most]
        for token in (entry, *entry["top_logprobs"]):
            if token.get("bytes") is None:
                token["bytes"] = list(token["token"].encode())


async def all_of(work: list[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Results in order. The first failure ends the others and is raised as it is, not in a group."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
