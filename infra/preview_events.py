"""What `pulumi preview --json` found: resources, policy findings, errors. Pure.

Reads the events that it prints with PULUMI_ENABLE_STREAMING_JSON_PREVIEW, an object a line: the digest that
it prints without leaves out what policies found (pulumi 3.274, pkg/backend/display/json.go, the line "we
don't handle policy events"). No value of a resource's property leaves this file, only the properties' names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from infra.redaction import Redaction, secret_texts

STREAMING = "PULUMI_ENABLE_STREAMING_JSON_PREVIEW"
AGAIN = f"make it with: {STREAMING}=true pulumi preview --json --policy-pack policies --stack NAME > FILE"
Operation = Literal["create", "update", "delete", "replace", "import"]
"""The steps that a reader counts. A replacement's own two, create-replacement and delete-replaced, are its parts."""
OPERATIONS: dict[str, Operation] = {name: name for name in get_args(Operation)}
OF_THE_MACHINE = "using pulumi-"
"""How a warning begins that says which plugin a machine has, and nothing of the change."""


class PreviewUnreadable(ValueError):
    """The text is not the whole output of a preview; says what was found and how to make it."""


@dataclass(frozen=True)
class Change:
    """One resource; `keys` are the names of properties that differ, or that force the replacement."""

    operation: Operation
    type: str
    name: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class PolicyFinding:
    """One violation; `stops` where the update would be refused for it."""

    policy: str
    level: str
    text: str
    stops: bool


@dataclass(frozen=True)
class Preview:
    """One finished preview, with no secret in its texts."""

    stack: str
    changes: tuple[Change, ...]
    unchanged: int
    policies: tuple[PolicyFinding, ...]
    policies_ran: bool
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    failed: bool
    redact: Redaction
    """Takes this preview's secrets out of any other text."""


class _Read(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


class _State(_Read):
    custom: bool = False
    inputs: dict[str, Any] | None = None
    outputs: dict[str, Any] | None = None


class _Step(_Read):
    op: str
    urn: str
    type: str
    old: _State | None = None
    new: _State | None = None
    keys: list[str] | None = None
    diffs: list[str] | None = None

    @property
    def custom(self) -> bool:
        """Whether it is a thing by itself, and no component's name for several, nor a provider."""
        state = self.new or self.old
        return bool(state and state.custom) and not self.type.startswith("pulumi:")

    @property
    def name(self) -> str:
        return self.urn.split("::", 3)[-1]


class _Resource(_Read):
    metadata: _Step


class _Diagnostic(_Read):
    message: str
    severity: str
    ephemeral: bool = False


class _Policy(_Read):
    message: str
    policy_name: str
    enforcement_level: str
    exceptions: list[Any] = []


class _Summary(_Read):
    is_preview: bool = True
    result: str = ""
    policy_packs: dict[str, str] | None = Field(None, alias="PolicyPacks")


class _Event(_Read):
    resource_pre_event: _Resource | None = None
    res_outputs_event: _Resource | None = None
    diagnostic_event: _Diagnostic | None = None
    policy_event: _Policy | None = None
    summary_event: _Summary | None = None


def read_preview(text: str, where: str) -> Preview:
    """The preview that printed this text. Raises PreviewUnreadable where it is not one's whole output."""
    events = list(_events(text, where))
    summary = next((event.summary_event for event in events if event.summary_event), None)
    if summary is None:
        raise PreviewUnreadable(f"{where}: found {len(events)} events and no summary, wanted a preview's whole output: "
                                f"it was cut off or killed; {AGAIN}")  # fmt: skip
    if not summary.is_preview:
        raise PreviewUnreadable(f"{where}: found the events of an update, wanted a preview's; {AGAIN}")
    steps = [event.resource_pre_event.metadata for event in events if event.resource_pre_event]
    redact = Redaction(_secrets(events))
    said = [
        event.diagnostic_event for event in events if event.diagnostic_event and not event.diagnostic_event.ephemeral
    ]
    return Preview(
        stack=_stack(steps),
        changes=tuple(_changes(steps)),
        unchanged=sum(step.op == "same" and step.custom for step in steps),
        policies=tuple(_finding(event.policy_event, redact) for event in events if event.policy_event),
        policies_ran=bool(summary.policy_packs),
        errors=_messages(said, "error", redact),
        warnings=_messages(said, "warning", redact),
        failed=summary.result == "failed" or any(one.severity == "error" for one in said),
        redact=redact,
    )


def _events(text: str, where: str) -> Iterator[_Event]:
    if not text.strip():
        raise PreviewUnreadable(f"{where}: found nothing, wanted the events of a preview: it ended before it began, and "
                                "said why on standard error (no such stack: `pulumi stack init NAME`; not logged in: "
                                f"set PULUMI_BACKEND_URL); {AGAIN}")  # fmt: skip
    if _is_digest(text):
        raise PreviewUnreadable(f"{where}: found the digest of a preview, wanted its events: a digest leaves out what "
                                f"policies found; {AGAIN}")  # fmt: skip
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield _Event.model_validate_json(line)
            except ValidationError:
                message = f"{where}, line {number}: found no event of Pulumi, wanted an object a line: the file was cut off, or holds other text"
                raise PreviewUnreadable(f"{message}; {AGAIN}") from None


def _is_digest(text: str) -> bool:
    try:
        content = json.loads(text)
    except ValueError:
        return False
    return isinstance(content, dict) and bool({"steps", "changeSummary"} & set(content))


def _secrets(events: Iterable[_Event]) -> Iterator[str]:
    for event in events:
        for found in (event.resource_pre_event, event.res_outputs_event):
            if found:
                states = [state for state in (found.metadata.old, found.metadata.new) if state]
                yield from secret_texts([part for state in states for part in (state.inputs, state.outputs)])


def _stack(steps: list[_Step]) -> str:
    """Of `urn:pulumi:STACK::PROJECT::TYPE::NAME`; "" where nothing was looked at."""
    return steps[0].urn.split("::")[0].removeprefix("urn:pulumi:") if steps else ""


def _changes(steps: Iterable[_Step]) -> Iterator[Change]:
    for step in steps:
        operation = OPERATIONS.get(step.op)
        if operation and step.custom:
            keys = step.keys if operation == "replace" else step.diffs if operation == "update" else None
            yield Change(operation, step.type, step.name, tuple(keys or ()))


def _finding(event: _Policy, redact: Redaction) -> PolicyFinding:
    """The policy's own sentence comes first in the message; what was found is in the lines after it."""
    lines = redact(event.message).strip().splitlines()
    level = f"{event.enforcement_level}, excepted" if event.exceptions else event.enforcement_level
    stops = event.enforcement_level == "mandatory" and not event.exceptions
    return PolicyFinding(event.policy_name, level, " ".join(lines[1:] or lines), stops)


def _messages(said: Iterable[_Diagnostic], severity: str, redact: Redaction) -> tuple[str, ...]:
    texts = (redact(one.message).strip() for one in said if one.severity == severity)
    return tuple(
        dict.fromkeys(text for text in texts if text != "preview failed" and not text.startswith(OF_THE_MACHINE))
    )
