"""What vLLM's own code makes of a connector's configuration: run in vLLM's environment (vllm 0.32), not in ours.

    PYTHONPATH=<vLLM's site folder> python3.11 tests/engine/vllm_connectors.py < cases.json

Reads a list of cases {name, class, configs: [...], sources: [...]} and prints one JSON object a case. Classes whose
package is not installed are read as source, without being imported. A last line tells what MultiConnector does with
its children's metrics.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

# vLLM reads these when it is imported. Its log goes to stdout, which is for the result.
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

import prometheus_client
import vllm
from vllm.config import KVTransferConfig
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.v1 import supports_hma
from vllm.distributed.kv_transfer.kv_connector.v1.multi_connector import MultiConnector

ROOT = Path(vllm.__path__[0]).resolve()
CONNECTORS = ROOT / "distributed/kv_transfer/kv_connector/v1"
READERS = ("get_from_extra_config", "get")
HOLDERS = ("extra_config", "kv_connector_extra_config", "kvc_extra_config")


def parsed(config: dict[str, Any]) -> list[str]:
    """The class names of a configuration and of those inside it, as vLLM's own class reads them."""
    found = KVTransferConfig(**config)
    # As MultiConnector does it.
    inside = [
        KVTransferConfig(**child, engine_id=found.engine_id)
        for child in found.kv_connector_extra_config.get("connectors", [])
    ]
    return [str(one.kv_connector) for one in (found, *inside)]


def unknown_fields_refused() -> bool:
    try:
        KVTransferConfig(kv_connector="NixlConnector", kv_role="kv_producer", no_such_field=1)
    except Exception:
        return True
    return False


def registered(name: str) -> tuple[str, str]:
    """(module, class) under which vLLM's factory registers a connector."""
    loader = KVConnectorFactory._registry[name]
    cells = dict(
        zip(loader.__code__.co_freevars, (cell.cell_contents for cell in loader.__closure__ or ()), strict=True)
    )
    return cells["module_path"], cells["class_name"]


def facts(name: str) -> dict[str, Any]:
    """What a class says of itself: by import where that works, else by its source."""
    module, class_name = registered(name)
    try:
        found = getattr(importlib.import_module(module), class_name)
    except ImportError as error:
        return {**facts_of_source(module, class_name), "imported": False, "missing": error.name}
    return {
        "imported": True,
        "hybrid": supports_hma(found),
        "statistics": returns_something(inspect.getsource(found.get_kv_connector_stats)),
        "exports": returns_something(inspect.getsource(found.build_prom_metrics)),
    }


def facts_of_source(module: str, class_name: str) -> dict[str, Any]:
    tree = ast.parse(file_of(module).read_text())
    assigned = {target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets
                if isinstance(target, ast.Name)}  # fmt: skip
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if class_name not in assigned | classes.keys():
        raise LookupError(f"{module} has no {class_name}")
    made = classes.get(class_name) or next(node for name, node in classes.items() if name.startswith(class_name))
    methods = {node.name: ast.unparse(node) for node in made.body if isinstance(node, ast.FunctionDef)}
    return {
        "hybrid": "SupportsHMA" in {ast.unparse(base) for base in made.bases},
        "statistics": returns_something(methods.get("get_kv_connector_stats", "")),
        "exports": returns_something(methods.get("build_prom_metrics", "")),
    }


def file_of(module: str) -> Path:
    found = ROOT.parent / module.replace(".", "/")
    return found / "__init__.py" if found.is_dir() else found.with_suffix(".py")


def returns_something(source: str) -> bool:
    """Whether a method returns anything but None."""
    returns = [node for node in ast.walk(ast.parse(textwrap.dedent(source))) if isinstance(node, ast.Return)]
    return any(one.value is not None and not (isinstance(one.value, ast.Constant) and one.value.value is None)
               for one in returns)  # fmt: skip


def source(name: str) -> ast.Module:
    beside = CONNECTORS / name
    return ast.parse((beside if beside.is_file() else ROOT / name).read_text())


def strings(tree: ast.AST) -> set[str]:
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def option_reads(tree: ast.AST) -> Iterator[str]:
    """The keys that a source reads from a connector's extra config."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in READERS
            and node.args
        ):
            direct, key = node.func.attr == READERS[0] or from_extra(node.func.value), node.args[0]
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            direct, key = from_extra(node.value), node.slice
        else:
            continue
        if direct and isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value


def from_extra(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in HOLDERS


def case(asked: dict[str, Any]) -> dict[str, Any]:
    trees = [source(name) for name in asked["sources"]]
    said: dict[str, Any] = {
        "name": asked["name"],
        "classes": [parsed(config) for config in asked["configs"]],
        "strings": sorted(set().union(*map(strings, trees))),
        "reads": sorted({key for tree in trees for key in option_reads(tree)}),
    }
    return said | (facts(asked["class"]) if asked["class"] else {})


def multi() -> dict[str, Any]:
    """The metrics of NIXL inside MultiConnector, and what becomes of Mooncake's there."""
    labels = ["model_name", "engine"]
    children = [{"kv_connector": name, "kv_role": "kv_consumer"} for name in ("NixlConnector", "MooncakeConnector")]
    transfer = KVTransferConfig(
        kv_connector="MultiConnector", kv_role="kv_consumer", kv_connector_extra_config={"connectors": children}
    )
    kinds = (prometheus_client.Gauge, prometheus_client.Counter, prometheus_client.Histogram)
    made = MultiConnector.build_prom_metrics(
        SimpleNamespace(kv_transfer_config=transfer), {kind: kind for kind in kinds}, labels, {0: ["m", "0"]}
    )
    series = [sample for family in prometheus_client.REGISTRY.collect() for sample in family.samples
              if sample.name.startswith("vllm:")]  # fmt: skip
    try:
        made.observe({"MooncakeConnector": {"transfer_duration": [0.1]}}, 0)
        outcome = "observed"
    except AssertionError:
        outcome = "AssertionError"
    return {
        "name": "multi's metrics",
        "series": sorted({sample.name for sample in series}),
        "labels": sorted({label for sample in series for label in sample.labels}),
        "mooncake": outcome,
        "unknown_refused": unknown_fields_refused(),
    }


def main() -> int:
    for asked in json.load(sys.stdin):
        try:
            said = case(asked)
        except Exception as error:  # one connector's failure is a line, not the end
            said = {"name": asked["name"], "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(said), flush=True)
    print(json.dumps(multi()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
