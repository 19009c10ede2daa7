"""Why an update may not be, as the engine's own check of a resource finds it.

The engine tells a check's failure by its text alone. What fails in a component itself it tells, too, but then the
user's program may end with a traceback of its SDK's beside it (pulumi 3.274: "resource monitor shut down").
"""

from __future__ import annotations

from typing import Any

from pulumi.dynamic import CheckFailure, CheckResult, CreateResult, DiffResult, ResourceProvider
from pulumi.runtime.rpc import UNKNOWN


class AdmissionProvider(ResourceProvider):
    """`refusal` is the text for the user, empty where there is none. It holds nothing and changes nothing."""

    def check(self, _olds: dict[str, Any], news: dict[str, Any]) -> CheckResult:
        refusal = news.get("refusal")
        told = isinstance(refusal, str) and refusal != UNKNOWN and refusal
        return CheckResult(news, [CheckFailure("", told)] if told else [])

    def create(self, props: dict[str, Any]) -> CreateResult:
        return CreateResult("admitted", props)

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        return DiffResult(changes=False)
