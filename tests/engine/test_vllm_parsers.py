"""The parsers that rules know are those of the installed vLLM."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from components.serving.parsers import REASONING_PARSERS, TOOL_PARSERS
from tools.cache import cache


def registered(file: Path) -> set[str]:
    """The keys of the table that a parsers' package registers, read without importing it."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            return {str(ast.literal_eval(key)) for key in node.value.keys if key is not None}
    raise AssertionError(f"{file} has no table of parsers")


@pytest.mark.parametrize(("package", "known"), [("tool_parsers", TOOL_PARSERS), ("reasoning", REASONING_PARSERS)])
def test_the_known_parsers_are_vllms(package: str, known: tuple[str, ...]) -> None:
    assert registered(cache().layout().vllm / "vllm" / package / "__init__.py") == set(known)
