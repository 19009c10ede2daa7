"""The faults that `splitserve check` must tell on real GPUs: which engines, and which verdict each must get.

The article's box both ways, and what the field reports most. All engines of a run start at once, several on a GPU:
starting is most of the time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tools.gpu.engines import NO_PEER_ACCESS, Engine, Spec

PROMPT_TOKENS = 8192
CHECK = ("-m", "tools.gpu.check")
LIMIT_S = 300
MIDDLE_S = 0.7
"""After a sample's end: its own second answer and the next prompt's prefill take 0.4 s, then a transfer by TCP takes 1.3."""


@dataclass(frozen=True)
class Scenario:
    """Engines by their names in `specs`. `causes` are the verdicts that are right, `says` what the answer must hold."""

    name: str
    prefill: str
    decode: str
    code: int
    causes: tuple[str, ...]
    says: tuple[str, ...] = ()
    path: str | None = None
    samples: int = 1
    age: str = "off"
    """As `--age`; what a fault shows on a fresh cache is not asked again on an aged one."""
    kill: str | None = None
    """The engine that is killed: `before` the check, or in its `middle`."""


SCENARIOS = (
    Scenario("peer access", "prefill", "decode", 0, ("fast",), path="peer-access", samples=5, age="60"),
    Scenario(
        "no peer access",
        "prefill-tcp",
        "decode-tcp",
        1,
        ("slow-link",),
        ("peer access not used", "fix peer access"),
        "tcp",
    ),
    Scenario("silent decoder", "prefill", "silent", 1, ("never-disaggregated",)),
    Scenario("wrong role", "consumer", "decode", 1, ("never-disaggregated",), ("told nothing for a decoder",)),
    Scenario("mismatched block size", "prefill", "small-blocks", 1, ("failed-transfers", "pod-ended")),
    Scenario(
        "killed mid-transfer",
        "prefill-tcp",
        "decode-tcp",
        1,
        ("pod-ended", "failed-transfers"),
        samples=100,
        kill="middle",
    ),
    Scenario("dead prefill", "prefill-tcp", "decode", 2, ("no-answer",), kill="before"),
)
"""In an order in which an engine that is killed is needed by none that follows."""


def specs(model: Path, **changed: Any) -> dict[str, Spec]:
    """All engines of the scenarios by name, three or four on a GPU."""
    tcp = {"environment": NO_PEER_ACCESS}
    made = {
        "prefill": Spec("prefill", model, 0, 8100, **changed),
        "decode": Spec("decode", model, 1, 8101, **changed),
        "prefill-tcp": Spec("prefill", model, 0, 8102, **{**changed, **tcp}),
        "decode-tcp": Spec("decode", model, 1, 8103, **{**changed, **tcp}),
        "silent": Spec("decode", model, 1, 8104, **{**changed, "connector": None}),
        "consumer": Spec("prefill", model, 0, 8105, **{**changed, "role": "kv_consumer"}),
    }
    half = made["decode"].block_size // 2
    return made | {"small-blocks": Spec("decode", model, 0, 8106, **{**changed, "block_size": half})}


def run(scenario: Scenario, engines: dict[str, Engine], more: Sequence[str] = ()) -> dict[str, Any]:
    """The check's JSON, with its exit `code`, and `stderr`."""
    prefill, decode = engines[scenario.prefill], engines[scenario.decode]
    if scenario.kill == "before":
        prefill.kill()
    config = f"--model-config={prefill.spec.model / 'config.json'}"
    command = [sys.executable, *CHECK, f"--prefill={prefill.url}", f"--decode={decode.url}", config, "--json",
               f"--topology={prefill.log}", f"--topology={decode.log}", f"--prompt-tokens={PROMPT_TOKENS}", f"--age={scenario.age}",
               f"--samples={scenario.samples}", *more]  # fmt: skip
    asked = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert asked.stderr
    said = ""
    if scenario.kill == "middle":
        said = _until(asked.stderr, "sample 2")
        time.sleep(MIDDLE_S)
        prefill.kill()
    out, err = asked.communicate(timeout=LIMIT_S)
    try:
        found = json.loads(out)
    except ValueError:
        found = {"cause": "no JSON", "message": out[-2000:]}
    return found | {"code": asked.returncode, "stderr": (said + err)[-2000:]}


def faults(scenario: Scenario, found: dict[str, Any]) -> list[str]:
    """What is not as it must be."""
    said = json.dumps({key: found.get(key) for key in ("message", "fix", "notes")})
    path = (found.get("topology") or {}).get("path")
    wrong = []
    if found["code"] != scenario.code:
        wrong.append(f"exit code: found {found['code']}, wanted {scenario.code}")
    if found["cause"] not in scenario.causes:
        wrong.append(f"cause: found {found['cause']}, wanted {' or '.join(scenario.causes)}")
    wrong += [f"answer: found no `{words}` in {said[:600]}" for words in scenario.says if words not in said]
    if scenario.path and path != scenario.path:
        wrong.append(f"way: found {path}, wanted {scenario.path}")
    return wrong


def _until(stream: IO[str], words: str) -> str:
    said = ""
    for line in stream:
        said += line
        if words in line:
            break
    return said
