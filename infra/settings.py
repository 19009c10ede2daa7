"""The stack file's settings: what may be written, its defaults, and every fault in one message.

Pure: reads a mapping, calls no network and no Pulumi. Keys are camelCase, as in the stack file. What is
wrong between settings that are each right by themselves is `infra/rules`' to say.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from components.serving.spec import TIERS
from infra.schema.operation import Autoscale, Edge, Gate, Observability, Rollout, Traffic
from infra.schema.platform import Hardware, NodeGroup, Platform
from infra.schema.section import NonNegative, Section
from infra.schema.serving import (
    Chat,
    Connector,
    Encoder,
    Engine,
    Gateway,
    ImageContents,
    Model,
    Render,
    Resources,
    Router,
    Tier,
)

NO_MODEL = {"name": "none", "folder": "none"}
"""In place of a model, where a stack serves none."""


class SettingsError(ValueError):
    """One or more settings are wrong; `faults` has a line for each."""

    def __init__(self, where: str, faults: list[str]) -> None:
        self.faults = faults
        lines = "\n".join(f"  - {fault}" for fault in faults)
        super().__init__(f"{where}: {len(faults)} fault(s), nothing was changed:\n{lines}")


class Settings(Section):
    """Everything under `splitserve:` in a stack file."""

    platform: Platform
    topology: Literal["prefill-decode", "collocated"] = "prefill-decode"
    image: str | None = None
    """The vLLM image, by digest; only the local platform has a default."""
    image_contents: ImageContents = ImageContents()
    model: Model
    chat: Chat = Chat()
    engine: Engine = Engine()
    prefill: Tier = Tier()
    decode: Tier = Tier()
    collocated: Tier = Tier()
    router: Router = Router()
    render: Render = Render()
    encoder: Encoder = Encoder()
    gateway: Gateway = Gateway()
    connector: Connector = Connector()
    gate: Gate = Gate()
    rollout: Rollout = Rollout()
    autoscale: Autoscale = Autoscale()
    observability: Observability = Observability()
    edge: Edge = Edge()
    traffic: Traffic | None = None
    """What the stack is for: the preview then says whether a split pays."""
    run_as_user: NonNegative = 65534
    note: str = ""
    """A word on the release; another note is another release."""

    @property
    def tiers(self) -> dict[str, Tier]:
        return {tier: getattr(self, tier) for tier in TIERS[self.topology]}

    def engine_of(self, tier: str) -> Engine:
        """The engine's settings with the tier's overrides in place."""
        override = self.tiers[tier].engine
        given = {name: value for name in override.model_fields_set if (value := getattr(override, name)) is not None}
        return self.engine.model_copy(update=given)

    def resources_of(self, tier: str) -> Resources:
        """The tier's own resources, or the engine's."""
        return self.tiers[tier].resources or self.engine.resources

    def node_group(self, tier: str) -> NodeGroup | None:
        aws = self.platform.aws
        return getattr(aws.node_groups, tier) if aws else None

    @property
    def hardware(self) -> Hardware | None:
        return self.platform.hardware


def load(values: Mapping[str, Any], where: str) -> Settings:
    """Settings from the stack file's keys (without `splitserve:`).

    Raises SettingsError with one line per fault: the key, what was found, what is allowed. A stack with
    `layers: cluster` serves no model, and has no setting but `platform`.
    """
    if not is_cluster_layer(values):
        return validated(Settings, values, where)
    if extra := sorted(key for key in values if key != "platform"):
        raise SettingsError(where, [
            f"{key}: found a setting of what is served, with layers: cluster; wanted nothing; it belongs to the stack "
            "with layers: serving" for key in extra
        ])  # fmt: skip
    return validated(Settings, {**values, "model": NO_MODEL}, where)


def is_cluster_layer(values: Mapping[str, Any]) -> bool:
    platform = values.get("platform")
    return isinstance(platform, Mapping) and platform.get("layers") == "cluster"


Validated = TypeVar("Validated", bound=Section)


def validated(section: type[Validated], values: Mapping[str, Any], where: str) -> Validated:
    """A section from plain values; raises SettingsError as `load` does."""
    try:
        return section.model_validate(values)
    except ValidationError as error:
        raise SettingsError(where, [_fault(detail) for detail in error.errors()]) from None


def json_schema() -> dict[str, Any]:
    """JSON Schema of a stack file, for editors: every key below `config` with its prefix."""
    schema = Settings.model_json_schema(by_alias=True)
    prefixed = {f"splitserve:{key}": value for key, value in schema.pop("properties").items()}
    required = [f"splitserve:{key}" for key in schema.pop("required")]
    config = {"type": "object", "properties": prefixed, "required": required,
              "patternProperties": {"^(?!splitserve:)": {}}, "additionalProperties": False}  # fmt: skip
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "splitserve stack file",
        "type": "object",
        "properties": {"config": config, "encryptionsalt": {"type": "string"}},
        "$defs": schema["$defs"],
    }


def _fault(detail: ErrorDetails) -> str:
    """One pydantic error as: key: found, wanted."""
    path = [str(part) for part in detail["loc"] if str(part) not in ("literal['auto','off']", "constrained-int")]
    key = ".".join(path)
    kind, found = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return f"{key}: no such setting{_nearest(path)}"
    if kind == "missing":
        return f"{key}: missing; it has no default"
    message = detail["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        return f"{key}: {message}"
    return f"{key}: found {found!r}; {message[0].lower()}{message[1:]}"


def _nearest(path: list[str]) -> str:
    """The known keys beside a misspelt one, the nearest first."""
    section: type[BaseModel] = Settings
    for part in path[:-1]:
        field = next((f for f in section.model_fields.values() if f.alias == part), None)
        found = field and _section_of(field.annotation)
        if not found:
            return ""
        section = found
    known = [field.alias or name for name, field in section.model_fields.items()]
    close = difflib.get_close_matches(path[-1], known, n=1, cutoff=0.5)
    return f"; did you mean `{close[0]}`?" if close else f"; known here: {', '.join(known)}"


def _section_of(annotation: Any) -> type[BaseModel] | None:
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None
