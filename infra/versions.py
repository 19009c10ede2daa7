"""Every version that a deployment depends on, in one place.

`PULUMI` and the provider's number are repeated by `tools/engine`, which builds them; a test holds
the two together.
"""

from __future__ import annotations

PULUMI = "3.274.1"
PULUMI_MINIMUM = "3.238.0"
"""The first engine with everything used here (docs/explanation/engine.md)."""
VLLM = "0.32.0"
VLLM_ROUTER = "0.1.17"
