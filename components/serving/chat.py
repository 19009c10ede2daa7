"""What engines and the render tier are told of chats: one template, one parser each. Pure."""

from __future__ import annotations

from typing import Any

from components.serving.release_files import FILES_MOUNT, MOUNT
from components.serving.spec import ServingSpec

TEMPLATE_FILE = "chat-template.jinja"


def chat_arguments(serving: ServingSpec) -> list[str]:
    """vLLM's arguments (vllm 0.32 `entrypoints/openai/cli_args.py`); none where the model's own hold."""
    chat, arguments = serving.chat, []
    if chat.template is not None:
        arguments += ["--chat-template", f"{MOUNT}/{TEMPLATE_FILE}"]
    if chat.tool_parser:
        arguments += ["--enable-auto-tool-choice", "--tool-call-parser", chat.tool_parser]
    if chat.reasoning_parser:
        arguments += ["--reasoning-parser", chat.reasoning_parser]
    return arguments


def chat_files(serving: ServingSpec) -> dict[str, bytes]:
    """The release's files that these arguments name."""
    template = serving.chat.template
    return {} if template is None else {TEMPLATE_FILE: template.encode()}


def chat_mounts(serving: ServingSpec) -> list[dict[str, Any]]:
    return [] if serving.chat.template is None else [FILES_MOUNT]
