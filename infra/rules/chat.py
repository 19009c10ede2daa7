"""Chats: engines and the render tier must make the same prompt of a request, and parse alike."""

from __future__ import annotations

from collections.abc import Iterator

from components.hardware.nearest import nearest
from components.serving.parsers import REASONING_PARSERS, TOOL_PARSERS, made_for
from infra.plan import Plan
from infra.rules.parity import flag_values
from infra.rules.rule import Finding, rule

PROMPT_FLAGS = (
    "--chat-template", "--chat-template-content-format", "--default-chat-template-kwargs", "--enable-auto-tool-choice",
    "--generation-config", "--hf-config-path", "--hf-overrides", "--limit-mm-per-prompt", "--max-model-len",
    "--mm-processor-kwargs", "--reasoning-parser", "--reasoning-parser-plugin", "--revision", "--served-model-name",
    "--tokenizer", "--tokenizer-mode", "--tokenizer-revision", "--tool-call-parser", "--tool-parser-plugin",
    "--trust-remote-code", "--trust-request-chat-template",
)  # fmt: skip
"""What decides prompts and answers (vllm 0.32 `entrypoints/launchers/cli_args.py`, `engine/arg_utils.py`)."""
CHAT_SETTINGS = {"--chat-template": "chat.template", "--tool-call-parser": "chat.toolParser",
                 "--enable-auto-tool-choice": "chat.toolParser", "--reasoning-parser": "chat.reasoningParser"}  # fmt: skip


def _arguments(plan: Plan) -> dict[str, dict[str, str]]:
    """By tier, the flags of its extra arguments that decide prompts and answers."""
    given = {tier: settings.extra_args for tier, settings in plan.settings.tiers.items()}
    if plan.settings.render.replicas:
        given["render"] = plan.settings.render.extra_args
    return {tier: {f: v for f, v in flag_values(args).items() if f in PROMPT_FLAGS} for tier, args in given.items()}


@rule("chat-flags-agree", "error", "Every tier makes the same prompt of a request and parses answers alike.",
      "vllm 0.32 docs/serving/online_serving/renderer.md: the renderer takes the engine's own flags")  # fmt: skip
def chat_flags_agree(plan: Plan) -> Iterator[Finding]:
    arguments = _arguments(plan)
    for flag in PROMPT_FLAGS:
        found = {tier: flags.get(flag) for tier, flags in arguments.items()}
        if len(set(found.values())) > 1:
            keys = " and ".join(f"{tier}.extraArgs" for tier in found)
            values = ", ".join(f"{tier} {value or 'without it'}" for tier, value in found.items())
            way_out = f"set {CHAT_SETTINGS[flag]}, which all tiers get" if flag in CHAT_SETTINGS else "give it to all"
            yield Finding(keys, f"`{flag}`: {values}", "the same in all", way_out)


@rule("chat-settings-hold", "error", "Extra arguments don't replace the settings of chats.",
      "vLLM takes the last of two equal arguments")  # fmt: skip
def chat_settings_hold(plan: Plan) -> Iterator[Finding]:
    chat = plan.settings.chat
    given = {"chat.template": chat.template, "chat.toolParser": chat.tool_parser,
             "chat.reasoningParser": chat.reasoning_parser}  # fmt: skip
    for tier, flags in _arguments(plan).items():
        for flag in flags:
            if (setting := CHAT_SETTINGS.get(flag)) and given[setting]:
                yield Finding(f"{tier}.extraArgs", f"`{flag}` beside {setting}", "one of the two",
                              "leave the argument out")  # fmt: skip


@rule("parsers-known", "error", "Parsers are ones that vLLM has, or come with a plugin.",
      "vllm 0.32 tool_parsers/__init__.py, reasoning/__init__.py: an unknown name ends vLLM while it starts")  # fmt: skip
def parsers_known(plan: Plan) -> Iterator[Finding]:
    chat = plan.settings.chat
    plugins = {flag for flags in _arguments(plan).values() for flag in flags if flag.endswith("-plugin")}
    for key, given, known, plugin in (
        ("chat.toolParser", chat.tool_parser, TOOL_PARSERS, "--tool-parser-plugin"),
        ("chat.reasoningParser", chat.reasoning_parser, REASONING_PARSERS, "--reasoning-parser-plugin"),
    ):
        if given and given not in known and plugin not in plugins:
            yield Finding(key, given, "a parser that vLLM has", f"{nearest(given, known)} Or give every tier "
                          f"`{plugin}` in extraArgs")  # fmt: skip


@rule("parser-for-the-model", "warning", "Parsers are for models of this family.",
      "a parser that waits for another model's marks finds no call and no reasoning, without a word")  # fmt: skip
def parser_for_the_model(plan: Plan) -> Iterator[Finding]:
    model_type = str(plan.config.get("model_type", ""))
    chat = plan.settings.chat
    for key, given in (("chat.toolParser", chat.tool_parser), ("chat.reasoningParser", chat.reasoning_parser)):
        if given and made_for(given, model_type) is False:
            yield Finding(key, f"{given}, with a model of type {model_type}", "a parser for this model")


@rule("render-image", "error", "The render tier runs the engines' image.",
      "vllm 0.32: prompts and answers cross between the tiers in vLLM's own, unversioned shapes")  # fmt: skip
def render_image(plan: Plan) -> Iterator[Finding]:
    s = plan.settings
    if s.render.replicas and s.render.image and s.render.image != s.image:
        yield Finding("render.image", s.render.image, f"{s.image}, the engines'", "leave it out")


@rule("gateway-for-render", "error", "What only the gateway does is asked for with a render tier.",
      "splitserve: vllm-router stands in front where there is no render tier, and asks clients for no key")  # fmt: skip
def gateway_for_render(plan: Plan) -> Iterator[Finding]:
    s = plan.settings
    if s.render.replicas:
        return
    if s.edge.api_key_secret:
        yield Finding("edge.apiKeySecret", s.edge.api_key_secret, "a render tier, whose gateway asks for keys",
                      "set render.replicas, or leave it out")  # fmt: skip
    if s.gateway.model_fields_set:
        yield Finding("gateway", "limits, without a render tier", "render.replicas of 1 or more", "leave it out")
