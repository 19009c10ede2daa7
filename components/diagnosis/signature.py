"""A line by which a known fault gives itself away."""

from __future__ import annotations

from dataclasses import dataclass

NOT_STARTED = frozenset({"not-ready", "pod-ended", "no-nodes"})
NO_KV = frozenset({"never-disaggregated", "no-connector-seen", "router-not-disaggregated"})
BROKEN = frozenset({"failed-transfers", "pair-unmeasured", "never-disaggregated", "wrong-bytes"})
SLOW = frozenset({"slow-link", "slower-than-expected", "fragmented-cache"})


@dataclass(frozen=True)
class Signature:
    """`text` is printed as it stands by `file`, of `source`; it explains the verdict causes `explains` and no others.

    `file` is below vLLM's Python packages, where a test finds the text, or `stands` where the text is put together
    when it is printed; None where another program prints it, which then is `source`.
    """

    key: str
    text: str
    means: str
    fix: str
    explains: frozenset[str]
    source: str
    file: str | None = None
    stands: str | None = None
