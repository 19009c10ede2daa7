"""The parsers of tool calls and reasoning that vLLM has, and the families of models that each is for.

Names: vllm 0.32 `tool_parsers/__init__.py` and `reasoning/__init__.py`; tests/engine holds both against
the installed vLLM. An unknown name ends vLLM while it starts, minutes after the deploy.
"""

from __future__ import annotations

TOOL_PARSERS = (
    "apertus", "cohere_command3", "cohere_command4", "deepseek_v3", "deepseek_v31", "deepseek_v32", "deepseek_v4",
    "deepseek_v41", "dots", "ernie45", "functiongemma", "gemma4", "gigachat3", "glm45", "glm47", "granite",
    "granite-20b-fc", "granite4", "hermes", "hf", "hunyuan_a13b", "hy_v3", "hy_v4", "inkling", "internlm", "jamba",
    "k2_horizon", "kimi_k2", "kimi_k3", "lfm2", "ling3", "llama3_json", "llama4_json", "llama4_pythonic", "longcat",
    "mimo", "minicpm5", "minimax_m2", "minimax_m3", "mistral", "muse_glimmer", "olmo3", "openai", "phi4_mini_json",
    "plamo3", "poolside_v1", "pythonic", "qwen3_coder", "qwen3_json", "qwen3_xml", "seed_oss", "step3", "step3p5",
    "xlam",
)  # fmt: skip
REASONING_PARSERS = (
    "cohere_command3", "cohere_command4", "deepseek_r1", "deepseek_v3", "deepseek_v4", "deepseek_v41", "ernie45",
    "gemma4", "glm45", "glm47", "granite", "granite_thinking_parser", "hf", "holo2", "hunyuan_a13b", "hy_v3",
    "hy_v4", "inkling", "k2_horizon", "kimi_k2", "kimi_k3", "ling3", "mimo", "minicpmv", "minimax_m2",
    "minimax_m2_append_think", "minimax_m3", "mistral", "muse_glimmer", "nemotron_v3", "olmo3", "openai_gptoss",
    "plamo3", "poolside_v1", "qwen3", "seed_oss", "step3", "step3p5",
)  # fmt: skip
FAMILIES: dict[str, tuple[str, ...]] = {
    "deepseek": ("deepseek", "kimi"),
    "granite": ("granite",),
    "llama": ("llama",),
    "mistral": ("mistral", "mixtral"),
    "qwen3": ("qwen3",),
    "gemma": ("gemma",),
    "functiongemma": ("gemma",),
    "glm": ("glm",),
    "kimi": ("kimi", "deepseek"),
    "internlm": ("internlm",),
    "jamba": ("jamba",),
    "phi4": ("phi",),
    "openai": ("gpt_oss",),
    "minimax": ("minimax",),
    "ernie": ("ernie",),
    "hunyuan": ("hunyuan",),
    "olmo": ("olmo",),
    "nemotron": ("nemotron",),
}
"""A parser's name begins with the key; `model_type` of its models with one of the values."""


def made_for(parser: str, model_type: str) -> bool | None:
    """Whether a parser is for models of this type; None where that is not known (`hermes`, `pythonic`)."""
    family = max((key for key in FAMILIES if parser.startswith(key)), key=len, default=None)
    return None if family is None or not model_type else model_type.lower().startswith(FAMILIES[family])
