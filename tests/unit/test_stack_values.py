"""What a stack file says arrives as it was written, though Pulumi hands it over as text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra.stack_values import stack_values


@pytest.mark.parametrize(
    ("key", "handed", "meant"),
    [
        ("runAsUser", "0", 0),
        ("runAsUser", "root", "root"),
        ("note", "123", "123"),
        ("note", "true", "true"),
        ("image", "vllm:1", "vllm:1"),
        ("topology", "collocated", "collocated"),
        ("gate", json.dumps({"limitMs": 50}), {"limitMs": 50}),
        ("gate", "fast", "fast"),
        ("unknown", "[1]", [1]),
    ],
)
def test_a_value_is_read_as_its_setting_means_it(key: str, handed: str, meant: Any) -> None:
    assert stack_values({f"splitserve:{key}": handed, "aws:region": "x"}) == {key: meant}
