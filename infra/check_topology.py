"""What `splitserve check` is given of the topology, and what it finds by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from components.check.result import Result
from components.check.settings import Deployment
from components.check.way import with_topology
from components.topology.evidence import ASK_LINKS, ASK_PEERS, Gpus, read_topology
from components.topology.local import ask_here
from infra.check_arguments import Faults


@dataclass(frozen=True)
class Given:
    """What the user brings of the topology: texts by name, and which GPUs are meant."""

    texts: dict[str, str]
    gpus: Gpus

    def added(self, result: Result, deployment: Deployment | None = None, logs: dict[str, str] | None = None) -> Result:
        """The result with what is known of the way between the GPUs: from the user's texts, from the engines' logs, and
        from this machine's nvidia-smi where the engines run here and the user gave no matrix."""
        if result.basis == "nothing" and not result.pairs:
            return result
        engines = (*deployment.prefill, *deployment.decode) if deployment else ()
        texts = {**self.texts, **(logs or {})}
        found = read_topology(texts, self.gpus)
        if engines and "not-known" in (found.link, found.peer_access):
            found = read_topology({**texts, **ask_here(engine.url for engine in engines)}, self.gpus)
        unread = tuple(name for name in found.unread if name in self.texts)
        return with_topology(result, replace(found, unread=unread))


def texts(option: str, paths: Sequence[Path], faults: Faults) -> dict[str, str]:
    """Files by name."""
    found = {}
    for path in paths:
        try:
            found[str(path)] = path.read_text(errors="replace")
        except OSError as error:
            faults.found(option, f"no readable file {path} ({error.strerror})",
                         f"the output of `{ASK_LINKS}` or `{ASK_PEERS}`, or an engine's log")  # fmt: skip
    return found


def gpus(prefill: str | None, decode: str | None, faults: Faults) -> Gpus:
    """The tiers' GPUs by nvidia-smi's indices, such as `0,1`."""
    return Gpus(_indices("--prefill-gpus", prefill, faults), _indices("--decode-gpus", decode, faults))


def _indices(option: str, text: str | None, faults: Faults) -> tuple[int, ...]:
    if text is None:
        return ()
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() for part in parts):
        faults.found(option, text, "indices as nvidia-smi counts GPUs, such as 0 or 0,1")
        return ()
    return tuple(map(int, parts))
