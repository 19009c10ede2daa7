"""Run `splitserve check` as a user does, and read its line of JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from infra.cli import app
from tests.unit.fake_vllm import Server

QUICK = ("--samples", "2", "--prompt-tokens", "128", "--answer-tokens", "4")
CONFIG: dict[str, Any] = {
    "model_type": "llama", "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 128,
    "head_dim": 32, "vocab_size": 2048, "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip
"""4 layers x 2 heads x 32 x 2 (key, value) x 2 bytes: 1024 bytes a token, as the fakes move."""


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        lines = self.out.splitlines()
        assert len(lines) == 1, self.out
        return json.loads(lines[0])


def run(*arguments: str, stdin: str | None = None, env: dict[str, str] | None = None) -> Ran:
    result = CliRunner().invoke(app, ["check", *arguments], input=stdin, env=env)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def on(prefill: Server, decode: Server, *more: str, env: dict[str, str] | None = None) -> Ran:
    return run("--prefill", prefill.url, "--decode", decode.url, *QUICK, "--json", *more, env=env)


def config_file(folder: Path, **changed: Any) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(CONFIG | changed))
    return str(path)
