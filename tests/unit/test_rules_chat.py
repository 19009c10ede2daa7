"""Faults between tiers that render and parse: each is refused with its message, the right plan passes."""

from __future__ import annotations

from typing import Any

import pytest

from components.serving.parsers import FAMILIES, REASONING_PARSERS, TOOL_PARSERS, made_for
from infra.rules.all_rules import check
from tests.unit.plans import found, prod

Change = tuple[str, Any]
RENDER: Change = ("render.replicas", 2)

FAULTS: dict[str, tuple[str, list[Change], str]] = {
    "a_render_tier_with_another_template": (
        "chat-flags-agree", [RENDER, ("render.extraArgs", ["--chat-template", "/other.jinja"])],
        "`--chat-template`: prefill without it, decode without it, render /other.jinja, wanted the same in all; "
        "set chat.template"),
    "a_render_tier_with_another_length": (
        "chat-flags-agree", [RENDER, ("render.extraArgs", ["--max_model_len=1024"])], "render 1024"),
    "a_decoder_that_parses_tools_alone": (
        "chat-flags-agree", [("decode.extraArgs", ["--tool-call-parser", "hermes"])], "decode hermes"),
    "a_template_twice": (
        "chat-settings-hold",
        [("chat.toolParser", "llama3_json"), *((f"{t}.extraArgs", ["--tool-call-parser=x"]) for t in ("prefill", "decode"))],
        "`--tool-call-parser` beside chat.toolParser"),
    "a_parser_that_nobody_knows": (
        "parsers-known", [("chat.toolParser", "llama3-json")], "found llama3-json, wanted a parser that vLLM has; did "
        "you mean llama3_json"),
    "a_reasoning_parser_that_nobody_knows": (
        "parsers-known", [("chat.reasoningParser", "qwen4")], "chat.reasoningParser: found qwen4"),
    "a_parser_for_another_model": (
        "parser-for-the-model", [("chat.toolParser", "qwen3_xml")], "qwen3_xml, with a model of type llama"),
    "a_render_tier_of_another_image": (
        "render-image", [RENDER, ("render.image", "vllm:other")], "render.image: found vllm:other"),
    "keys_without_a_gateway": (
        "gateway-for-render", [("edge.apiKeySecret", "keys")], "wanted a render tier, whose gateway asks for keys"),
    "limits_without_a_gateway": (
        "gateway-for-render", [("gateway.maxQueued", 3)], "gateway: found limits, without a render tier"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_plan_with_the_fault_is_told_so(fault: str) -> None:
    rule, changes, words = FAULTS[fault]
    messages = [str(finding) for finding in found(prod(*changes), rule)]
    assert any(words in message for message in messages), messages


@pytest.mark.parametrize(
    "changes",
    [
        [RENDER, ("edge.apiKeySecret", "keys"), ("gateway.maxQueued", 3), ("chat.toolParser", "llama3_json")],
        [RENDER, *((f"{tier}.extraArgs", ["--trust-remote-code"]) for tier in ("prefill", "decode", "render"))],
        [("chat.toolParser", "own"),
         *((f"{tier}.extraArgs", ["--tool-parser-plugin", "/own.py"]) for tier in ("prefill", "decode"))],
    ],
    ids=["settings", "the-same-flag-everywhere", "a-plugin"],
)  # fmt: skip
def test_a_right_plan_passes(changes: list[Change]) -> None:
    assert check(prod(*changes)) == []


def test_a_family_is_known_only_where_a_parser_is_for_one() -> None:
    assert made_for("hermes", "llama") is None
    assert made_for("llama3_json", "llama") is True
    assert made_for("functiongemma", "gemma3") is True
    assert made_for("kimi_k2", "deepseek_v3") is True
    assert all(any(p.startswith(family) for p in (*TOOL_PARSERS, *REASONING_PARSERS)) for family in FAMILIES)
