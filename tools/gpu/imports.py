"""Which modules an engine imports that neither the packed tree nor the machine's own image has. Pure, but for `main`.

Follows imports that run when a module is loaded, from vLLM's entry points on: those of functions, of a `try` that
catches ImportError, and under TYPE_CHECKING are left out. `python -m tools.gpu.imports TREE` prints what is missing
and who asks for it, so that it is known before a machine with a GPU is.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOTS = (
    "vllm.entrypoints.cli.main", "vllm.entrypoints.cli.serve", "vllm.entrypoints.openai.api_server",
    "vllm.v1.engine.core", "vllm.v1.engine.async_llm", "vllm.v1.executor.uniproc_executor",
    "vllm.v1.executor.multiproc_executor", "vllm.v1.worker.gpu_worker", "vllm.v1.worker.gpu_model_runner",
    "vllm.platforms.cuda", "vllm.v1.attention.backends.flash_attn", "vllm.model_executor.models.qwen2",
    "vllm.model_executor.models.llama", "vllm.model_executor.model_loader.dummy_loader",
    "vllm.distributed.kv_transfer.kv_connector.v1.nixl.connector",
    "vllm.distributed.kv_transfer.kv_connector.v1.multi_connector",
    "vllm.distributed.kv_transfer.kv_connector.v1.mooncake.mooncake_connector", "nixl._api", "nixl_cu13._api",
)  # fmt: skip
IMAGE = frozenset(Path(__file__).with_name("image_modules.txt").read_text().split())
"""Top-level modules of the machine's own image."""
CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "Exception"})
Asked = Mapping[str, str]
"""Missing module: the module that asks for it first."""


def missing(tree: Path, roots: tuple[str, ...] = ROOTS) -> Asked:
    """What the tree lacks for these roots; a root that is not there is missing as well."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    waiting = [(root, "a root") for root in roots]
    while waiting:
        name, by = waiting.pop()
        for module in _parents(name):
            if module in seen:
                continue
            seen.add(module)
            top = module.partition(".")[0]
            if top in IMAGE or top in sys.stdlib_module_names:
                break
            path = _source(tree, module)
            if path is None and not _compiled(tree, module):
                found.setdefault(module, by)
                break
            if path is not None and path.suffix == ".py":
                waiting += [(wanted, module) for wanted in imports(path.read_text(errors="replace"), module, tree)]
    return found


def imports(source: str, module: str, tree: Path) -> Iterator[str]:
    """The modules that a module's loading imports, by their whole names."""
    path = _source(tree, module)
    package = module if path is not None and path.name == "__init__.py" else module.rpartition(".")[0]
    for node in _loaded(ast.parse(source).body):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names if _is_module(tree, f"{base}.{alias.name}"))


def _loaded(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If):
            if "TYPE_CHECKING" not in ast.dump(node.test):
                yield from _loaded(node.body)
            yield from _loaded(node.orelse)
        elif isinstance(node, ast.Try):
            if not any(_catches(handler) for handler in node.handlers):
                yield from _loaded(node.body)
            yield from _loaded(node.orelse)
        elif isinstance(node, ast.With | ast.ClassDef):
            suppressed = isinstance(node, ast.With) and "ImportError" in ast.dump(node)
            yield from () if suppressed else _loaded(node.body)


def _catches(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or any(name in ast.dump(handler.type) for name in CAUGHT)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    parts = package.split(".")
    base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
    return ".".join(part for part in (base, node.module or "") if part)


def _parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[: count + 1]) for count in range(len(parts)))


def _source(tree: Path, module: str) -> Path | None:
    path = tree.joinpath(*module.split("."))
    return next(
        (p for p in (path / "__init__.py", path.with_suffix(".py")) if p.is_file()), path if path.is_dir() else None
    )


def _compiled(tree: Path, module: str) -> bool:
    path = tree.joinpath(*module.split("."))
    return path.parent.is_dir() and any(path.parent.glob(f"{path.name}.*so"))


def _is_module(tree: Path, name: str) -> bool:
    return _source(tree, name) is not None or _compiled(tree, name)


def main() -> None:
    lacking = missing(Path(sys.argv[1]))
    for module, by in sorted(lacking.items()):
        print(f"{module}: asked for by {by}")
    raise SystemExit(1 if lacking else 0)


if __name__ == "__main__":
    main()
