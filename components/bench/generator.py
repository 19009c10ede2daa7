"""The command of the load generator: `vllm bench serve`, which every release's own image holds.

Flags: vllm 0.32 `vllm/benchmarks/serve.py` and `datasets.py`. Nothing is downloaded: prompts are random
tokens, and the tokenizer is the folder that the engines load.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from components.bench.load import Load
from components.serving.command_line import words

RESULT = "/tmp/bench.json"
PASSED_ON = ("--tokenizer", "--tokenizer-mode")
"""An engine's own arguments that the generator needs, too."""
TRUST = "--trust-remote-code"


def generator_command(engine: dict[str, Any], model: str, url: str, load: Load, rate_per_s: float,
                      seed: int) -> list[str]:  # fmt: skip
    """`engine` is the rendered container of an engine, `model` the name that it serves.

    Arrivals are a Poisson process (burstiness 1) of a fixed seed. No `--num-warmups`: it sends the first
    prompt again and again, so that the first measured request finds its KV in the prefix cache; a run that
    is thrown away warms up instead.
    """
    python, served = list(engine["command"][:3]), engine["command"][-1]
    arguments = {
        "--backend": "openai",
        "--base-url": url,
        "--endpoint": "/v1/completions",
        "--model": model,
        "--tokenizer": served,
        "--dataset-name": "random",
        "--random-input-len": str(load.prompt_tokens),
        "--random-output-len": str(load.output_tokens),
        "--random-prefix-len": "0",
        "--random-range-ratio": "0.0",
        "--num-prompts": str(load.requests),
        "--request-rate": str(rate_per_s),
        "--burstiness": "1.0",
        "--seed": str(seed),
        "--temperature": "0",
        "--result-filename": RESULT,
    }
    arguments |= _chosen(engine.get("args", []))
    flags = ["--ignore-eos", "--disable-tqdm", "--save-result", "--save-detailed"]
    if TRUST in engine.get("args", []):
        flags.append(TRUST)
    return [*python, "bench", "serve", *words(arguments), *flags]


def _chosen(args: Sequence[str]) -> dict[str, str]:
    """What the engine was told of its tokenizer, in either spelling of an option."""
    found = {}
    for flag, following in pairwise([*args, ""]):
        name, joined, value = flag.partition("=")
        if name in PASSED_ON:
            found[name] = value if joined else following
    return found
