"""What every group of settings has in common: camelCase keys, unknown ones refused, nothing coerced."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Port = Annotated[int, Field(ge=1, le=65535)]
Positive = Annotated[int, Field(ge=1, le=10**9)]
NonNegative = Annotated[int, Field(ge=0, le=10**9)]
PositiveNumber = Annotated[float, Field(gt=0, le=10**9, allow_inf_nan=False, strict=False)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
Quantity = Annotated[str, Field(pattern=r"^[1-9][0-9]*(Ki|Mi|Gi)$")]
"""Kubernetes' way to write bytes, such as `5120Mi`."""
LabelValue = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")]
LabelKey = Annotated[
    str, Field(pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
]
"""Of Kubernetes: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set."""
Text = Annotated[str, Field(min_length=1)]


class Section(BaseModel):
    """A group of settings."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        strict=True,
        populate_by_name=False,
        use_attribute_docstrings=True,
    )
