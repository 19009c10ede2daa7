"""What vLLM's own code makes of an encoder connector's configuration: run in vLLM's environment (vllm 0.32).

    PYTHONPATH=<vLLM's site folder> python3.11 tests/engine/vllm_encoder_connectors.py < cases.json

Reads a list of `--ec-transfer-config` values and prints one JSON object for each: what vLLM's class reads there, the
module that the factory has for it, and the words of that module and of those beside it.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import ast
import json
import os
import sys
from pathlib import Path
from typing import Any

# vLLM reads these when it is imported. Its log goes to stdout, which is for the result.
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

import vllm
from vllm import envs
from vllm.config import ECTransferConfig
from vllm.distributed.ec_transfer.ec_connector.factory import ECConnectorFactory

ROOT = Path(vllm.__path__[0]).resolve()


def module_of(name: str) -> str:
    """The module under which vLLM's factory registers a connector."""
    loader = ECConnectorFactory._registry[name]
    cells = dict(
        zip(loader.__code__.co_freevars, (cell.cell_contents for cell in loader.__closure__ or ()), strict=True)
    )
    return cells["module_path"]


def words(module: str) -> list[str]:
    """Every string in the sources of the module's folder, or of the module alone where it shares the folder."""
    file = (ROOT.parent / module.replace(".", "/")).with_suffix(".py")
    files = [file] if file.parent.name == "ec_connector" else sorted(file.parent.rglob("*.py"))
    trees = [ast.parse(one.read_text()) for one in files]
    return sorted({node.value for tree in trees for node in ast.walk(tree)
                   if isinstance(node, ast.Constant) and isinstance(node.value, str)})  # fmt: skip


def case(config: dict[str, Any]) -> dict[str, Any]:
    found = ECTransferConfig(**config)
    module = module_of(str(found.ec_connector))
    return {
        "producer": found.is_ec_producer,
        "consumer": found.is_ec_consumer,
        "encode_only": found.is_encode_only,
        "module": module,
        "words": words(module),
    }


def unknown_fields_refused() -> bool:
    try:
        ECTransferConfig(ec_connector="ECExampleConnector", ec_role="ec_producer", no_such_field=1)
    except Exception:
        return True
    return False


if __name__ == "__main__":
    for one in json.load(sys.stdin):
        print(json.dumps(case(one)))
    print(json.dumps({"refuses": unknown_fields_refused(), "variables": sorted(envs.environment_variables)}))
