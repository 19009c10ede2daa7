"""The contract of outputs as a Markdown table: docs/reference/outputs.md is made from it."""

from __future__ import annotations

from splitserve.contract import PROMISES, VERSION

HEAD = f"""# Outputs

What a stack that serves exports to other stacks and programs: contract {VERSION}. Made by `splitserve outputs` from
`splitserve/contract.py`. `from splitserve.outputs import read` gives them typed and checked
([how](../how-to/use-from-another-stack.md)); any language has them by stack reference.

The version rises when an output is renamed, goes, or means something else. A new output alone leaves it as it is.
Outputs are those of the last finished update: one that was killed has written none.

| output | form | there | what it is |
|---|---|---|---|
"""
TAIL = """
Two habits of Pulumi's engine (3.274) matter to whoever reads plain outputs:

- A stack reference leaves out what is null: ask whether a key is there before you use it.
- After a failed update an output keeps its last value where the new one is null. `kvTransferMs` and
  `kvTransferAgedMs` may be null (a collocated release moves no KV), so `ledger.live.measured` is the surer place:
  an object is always written as a whole. `live` never goes back to null; it goes with `pulumi destroy`.

`endpoint`, `model`, `apiKeySecret`, `live` and the times are the live release's. `verdict`, `lastUpdate` and `gate`
are the last update's: after a refused release they speak of that one, while the live one goes on answering.

What the reader refuses, each with what was found, what was wanted and the way out:

| problem | found |
|---|---|
| `unreadable` | no such stack, another backend, no right to read it, or no JSON |
| `not up` | no outputs: never up, or destroyed |
| `not a serving stack` | a stack with `layers: cluster`, or somebody else's |
| `older contract` | outputs from before contract 1 |
| `newer contract` | a version that this reader does not know |
| `malformed` | something missing, or of another form than promised; all of it at once |
| `no live release` | no release has passed its gate yet |
| `not passed` | by `require_passed` alone: the last update's release was refused, or could not be judged |
"""


def outputs_table() -> str:
    rows = (f"| `{p.name}` | {p.form} | {p.there} | {p.meaning} |\n" for p in PROMISES)
    return "".join([HEAD, *rows, TAIL])
