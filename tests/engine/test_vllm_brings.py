"""What runs on vLLM's image finds there what it imports: vLLM requires it, or cannot start without it."""

from __future__ import annotations

import ast
import re
import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from tools.cache import CHECKOUT, cache

PROGRAMS = ("components/gateway", "components/autoscaler")
STARTS_WITH = "entrypoints/cli/serve.py"
"""Of vLLM; what it imports at its head is there, or `vllm serve` ends."""


def imported(file: Path) -> set[str]:
    """The packages that a module imports, its own neighbours and Python's library left out."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"components"}


def required(site: Path) -> set[str]:
    """The distributions that vLLM's metadata requires without an extra, by the name that is imported."""
    (metadata,) = [found for found in site.glob("vllm*.dist-info") if re.match(r"vllm(_cpu)?-\d", found.name)][:1]
    wanted = Distribution.at(metadata).requires or []
    return {re.split(r"[^\w.-]", one)[0].replace("-", "_") for one in wanted if "extra ==" not in one}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_imports_nothing_that_vllms_image_may_lack(program: str) -> None:
    """A library that the local image had by chance ended the gateway on vLLM's own."""
    site = cache().layout().vllm
    files = [file for file in (CHECKOUT / program).glob("*.py") if file.name != "packed.py"]
    needed = set[str]().union(*(imported(file) for file in files))
    assert needed, f"{program} imports nothing: was it read?"
    assert needed <= required(site) | imported(site / "vllm" / STARTS_WITH)
