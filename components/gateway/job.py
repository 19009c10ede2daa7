"""One request of a client: what it asked for, what it was rendered to, and what its answers are stamped with."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from .samples import Sample

ID_PREFIX = {"chat": "chatcmpl-", "completion": "cmpl-"}


@dataclass
class Job:
    """`body` is the client's, without what it may not say. `echoed` is the text each prompt's answers begin with."""

    kind: str
    body: dict[str, Any]
    headers: dict[str, str]
    samples: list[Sample] = field(default_factory=list)
    echoed: list[str] = field(default_factory=list)
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def answer_id(self) -> str:
        return ID_PREFIX[self.kind] + self.headers["X-Request-Id"]

    @property
    def streams(self) -> bool:
        """As the render tier read it: it also takes "true" for true."""
        return bool(self.samples[0].request.get("stream"))

    @property
    def include_stop(self) -> bool:
        return bool(self.body.get("include_stop_str_in_output"))

    @property
    def hides_reasoning(self) -> bool:
        """Then logprobs and token ids are left out too: they would spell the reasoning (vLLM's chat server)."""
        return self.body.get("include_reasoning") is False

    @property
    def only_echo(self) -> bool:
        """`echo` with `max_tokens` 0: the engine must make one token, which nobody is shown."""
        return self.kind == "completion" and bool(self.body.get("echo")) and self.body.get("max_tokens") == 0

    @property
    def role(self) -> str:
        if self.body.get("add_generation_prompt", True):
            return "assistant"
        return str(self.body["messages"][-1].get("role", "assistant"))

    def finish_reason(self, engine: str | None, *, tools_called: bool) -> str | None:
        """OpenAI says `tool_calls` after a call of a tool that the model chose; after a named one, `stop`."""
        choice = self.body.get("tool_choice")
        if engine == "stop" and tools_called and not isinstance(choice, dict):
            return "tool_calls"
        return engine

    def usage(self) -> dict[str, Any]:
        """Over all samples. Each prompt is counted once, as the engine counts it (placeholders expanded)."""
        prompts: dict[int, int] = {}
        completion = 0
        for sample in self.samples:
            counted = sample.usage or {}
            prompts[sample.prompt] = counted.get("prompt_tokens", len(sample.token_ids))
            completion += counted.get("completion_tokens") or 0
        prompt = sum(prompts.values())
        return {
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion,
            "completion_tokens": completion,
            "prompt_tokens_details": self._prompt_details(),
        }

    def _prompt_details(self) -> dict[str, Any] | None:
        """Prefill's: to decode, every token that was transferred looks cached."""
        sample = self.samples[-1]
        usage = sample.usage if sample.prefilled is None else sample.prefilled.get("usage")
        return (usage or {}).get("prompt_tokens_details")
