"""What a resource kind is to the provider: its inputs as API parameters, and its five operations."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from tools.awsim.asking import Aws
from tools.awsim.properties import Properties, reconciled
from tools.awsim.shapes import ConversionFault, convert, faults, input_shape
from tools.awsim.tagging import Tagging

COMMON = frozenset({"region", "tags"})


class Kind:
    """A resource type of pulumi_aws. Subclasses state the facts and the calls; see kinds_*.py.

    `forces_new` is what the Terraform AWS provider's schema marks ForceNew for the resource
    (https://github.com/hashicorp/terraform-provider-aws, internal/service/<service>).
    """

    token: ClassVar[str]
    service: ClassVar[str]
    create_action: ClassVar[str]
    renames: ClassVar[Mapping[str, str]] = {}
    aside: ClassVar[frozenset[str]] = frozenset()
    """Inputs that do not go into the creating call; `settle`, `update` or `delete` use them."""
    forces_new: ClassVar[frozenset[str]] = frozenset()
    computed: ClassVar[tuple[str, ...]] = ()
    """Outputs that are known after creation only."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """The schema's defaults: giving one of them is no change."""
    told: ClassVar[tuple[str, ...]] = ()
    """Inputs that `read` finds, for an import."""
    name_input: ClassVar[str | None] = None
    """The input that Pulumi names by itself."""
    prefix_input: ClassVar[str | None] = None
    name_length: ClassVar[int] = 255
    tagging: ClassVar[Tagging | None] = None
    delete_before_replace: ClassVar[bool] = False

    def known_inputs(self, inputs: Properties) -> Properties:
        """The inputs that go into the creating call."""
        return {k: v for k, v in inputs.items() if k not in self.aside | COMMON and k != self.prefix_input}

    def parameters(self, inputs: Properties) -> dict[str, Any]:
        """The creating call's parameters. An input that it has no member for is an error."""
        if "tags" in inputs and not self.tagging:
            raise ConversionFault("tags: the resource has none")
        converted = convert(self.known_inputs(inputs), input_shape(self.service, self.create_action), self.renames)
        tags = self.tagging.at_creation(_known_tags(inputs)) if self.tagging else {}
        return {**converted, **tags}

    def check(self, inputs: Properties) -> list[str]:
        """What AWS would refuse, from the inputs alone."""
        return list(faults(self.parameters(inputs), input_shape(self.service, self.create_action)))

    def create(self, aws: Aws, inputs: Properties) -> str:
        """Make the thing and return its id."""
        return self.identity(aws.call(self.service, self.create_action, **self.parameters(inputs)), inputs)

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        raise NotImplementedError(self.token)

    def settle(self, aws: Aws, resource: str, inputs: Properties) -> None:
        """The calls after creation and the wait for what takes time."""

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        """Inputs and outputs by Pulumi's names, as AWS has them; None when it is gone."""
        raise NotImplementedError(self.token)

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        """Change what can change in place, apart from tags."""

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        raise NotImplementedError(self.token)

    def tagged(self, resource: str, state: Properties) -> str:
        """What the tagging calls want: the id, or the ARN."""
        return resource

    def recomputed(self, old: Properties, new: Properties) -> tuple[str, ...]:
        """Outputs that an update with these inputs changes."""
        return ()

    def found_inputs(self, old: Properties, found: Properties) -> Properties:
        """The inputs after a refresh; after an import, all those that AWS tells."""
        if not old:
            return {key: found[key] for key in (*self.told, "tags") if found.get(key) not in (None, [], {})}
        result = {}
        for key, value in old.items():
            now = found.get(key) if key in found else value
            if key == "tags":
                result[key] = found.get("tags", {}) if "tags" in found else value
            elif now is not None:
                result[key] = reconciled(value, now)
        return result

    def comparable(self, old: Properties, new: Properties) -> tuple[Properties, Properties]:
        """Both with the defaults; what AWS chooses where the program is silent stays as it is."""
        chosen = {key: old[key] for key in self.computed if key in old and key not in new}
        return {**self.defaults, **old}, {**self.defaults, **chosen, **new}

    def named(self, inputs: Properties) -> Properties:
        """The inputs with a name made from the prefix, where only a prefix is given."""
        if not self.name_input or self.name_input in inputs or not self.prefix_input:
            return inputs
        # Terraform's id.PrefixedUniqueId: time, then a counter
        unique = f"{inputs[self.prefix_input]}{time.strftime('%Y%m%d%H%M%S')}{secrets.token_hex(4)}"
        return {**inputs, self.name_input: unique[: self.name_length]}


def _known_tags(inputs: Properties) -> dict[str, str]:
    tags = inputs.get("tags")
    return tags if isinstance(tags, dict) else {}


def changed(old: Properties, new: Properties, *keys: str) -> bool:
    return any(old.get(key) != new.get(key) for key in keys)
