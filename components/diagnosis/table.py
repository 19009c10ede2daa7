"""The signatures as a Markdown page: `python -m components.diagnosis.table` writes it."""

from __future__ import annotations

from pathlib import Path

from components.diagnosis.signature import Signature
from components.diagnosis.signatures import SIGNATURES

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/signatures.md"
HEAD = """# Signatures

Lines of logs and events by which faults give themselves away. When a release does not pass, the gate reads the logs of
its pods and shows those lines that explain the [verdict](verdicts.md), the likeliest root first (as below);
[`splitserve check`](../how-to/check-any-deployment.md) does the same with pods' logs and with a log file. A line that
explains another cause is not shown. Made by `python -m components.diagnosis.table`; texts are those of vllm 0.32.0 with
nixl 1.5.1, and a test looks each up in their files.

| line | means | way out | explains | source |
|---|---|---|---|---|
"""


def signature_table() -> str:
    """The whole page."""
    return HEAD + "".join(_row(signature) for signature in SIGNATURES)


def _row(signature: Signature) -> str:
    source = f"[report]({signature.source})" if signature.source.startswith("https://") else signature.source
    explains = ", ".join(f"`{cause}`" for cause in sorted(signature.explains))
    cells = (f"`{signature.text.strip(' ,')}`", signature.means, signature.fix, explains, source)
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    PAGE.write_text(signature_table())
