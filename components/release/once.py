"""A dynamic resource that does something once, and again only when a deciding input changes.

Providers live in importable modules, so that the state holds a reference to the class and not its
code. They must not raise for what they find: they return it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pulumi.dynamic import CreateResult, DiffResult, ResourceProvider, UpdateResult

from components.release.progress import end_with_engine

BEFORE = "before"


class OnceProvider(ResourceProvider):
    """`decides` names the inputs whose change does it again; `run` does it and returns outputs.

    `unsettled` says of the last outputs and the new inputs that there is no answer yet, so that it is
    done again. An update finds the outputs of the time before under `BEFORE` among its inputs.
    """

    decides: ClassVar[tuple[str, ...]] = ()

    def run(self, props: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def unsettled(self, outputs: dict[str, Any], inputs: dict[str, Any]) -> bool:
        return False

    def create(self, props: dict[str, Any]) -> CreateResult:
        end_with_engine()
        return CreateResult(f"{type(self).__name__}-{props['releaseId']}", {**props, **self.run(props)})

    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        end_with_engine()
        return UpdateResult({**news, **self.run({**news, BEFORE: _olds})})

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        changed = self.unsettled(_olds, _news) or any(_olds.get(k) != _news.get(k) for k in self.decides)
        return DiffResult(changes=changed, replaces=[], stables=[], delete_before_replace=False)
