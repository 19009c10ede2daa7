"""vLLM engines as plain processes on one machine with GPUs: what the tests and benchmarks there measure.

Nothing here imports vLLM or torch. An engine is started by its command line, writes its log to a file, and is ended by
its own process group, whatever it has started itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.hardware.read_geometry import read_geometry
from components.serving.connectors.profiles import PROFILES
from components.serving.spec import EngineTier

SERVE = ("-m", "vllm.entrypoints.cli.main", "serve")
HOST = "127.0.0.1"
READY_LIMIT_S = 300
"""Two were ready after about 85 s; ten start at once."""
MOST_REQUESTS = 128
"""At once: vLLM's own 1,024 are more than the smallest chunk has tokens, which it refuses."""
END_LIMIT_S = 20
SAID = {"UCX_LOG_LEVEL": "info", "UCX_PROTO_INFO": "y", "NIXL_LOG_LEVEL": "info"}
"""Which transport moves the blocks then stands in the log."""
NO_PEER_ACCESS = {"UCX_TLS": "tcp,cuda_copy,self"}
"""As on a machine whose GPUs can't reach each other."""
SHARE_AT_LEAST = 0.05
"""Of a GPU's memory must be free when an engine starts; what it takes follows from its model and cache."""
LEFT = Path(tempfile.gettempdir()) / "splitserve-engines"
"""A file for each engine that has not been ended, named by its process group."""
NUMBER = {"prefill": 0, "decode": 1}


class NotReady(Exception):
    """An engine that ended or took too long; the message ends in its last lines."""


@dataclass(frozen=True)
class Spec:
    """One engine. `gpu` is the one that it computes on; both are visible to it, as cuda_ipc wants it.

    `connector` None: it runs without one. `blocks_of` tokens make `cache_tokens`.
    """

    tier: EngineTier
    model: Path
    gpu: int
    port: int
    connector: str | None = "nixl"
    options: dict[str, Any] = field(default_factory=dict)
    block_size: int = 128
    cache_tokens: int = 81_920
    max_model_len: int = 16_640
    environment: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    role: str | None = None
    """Where it is not the tier's own."""
    gpus: int = 2

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def command(self) -> list[str]:
        """The command line without the interpreter."""
        blocks = -(-self.cache_tokens // self.block_size) + 1  # one is vLLM's own
        made = {
            "--host": HOST, "--port": self.port, "--served-model-name": "model", "--load-format": "dummy",
            "--attention-backend": "FLASH_ATTN", "--block-size": self.block_size, "--num-gpu-blocks-override": blocks,
            "--max-model-len": self.max_model_len, "--kv-cache-memory-bytes": self.cache_bytes(),
            "--gpu-memory-utilization": SHARE_AT_LEAST,
            "--max-num-seqs": MOST_REQUESTS,
        }  # fmt: skip
        words = [*SERVE, str(self.model), *(str(word) for pair in made.items() for word in pair), "--enforce-eager"]
        if self.connector:
            words += ["--kv-transfer-config", json.dumps(self.transfer_config())]
        return [*words, *self.arguments]

    def cache_bytes(self) -> int:
        """Stated, since engines that start at once on one GPU would count each other's memory as their own."""
        geometry = read_geometry(json.loads((self.model / "config.json").read_text()))
        held = geometry.transfer(self.cache_tokens + 2 * self.block_size, self.block_size, geometry.dtype, 1)
        return int(held.total_bytes * 1.01)

    def transfer_config(self) -> dict[str, Any]:
        assert self.connector
        profile = PROFILES[self.connector]
        config: dict[str, Any] = {"kv_connector": profile.vllm_class, "kv_role": self.role or profile.roles[self.tier]}
        return config | ({"kv_connector_extra_config": self.options} if self.options else {})

    def variables(self) -> dict[str, str]:
        order = [self.gpu, *(gpu for gpu in range(self.gpus) if gpu != self.gpu)]
        return {
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, order)),
            "VLLM_NIXL_SIDE_CHANNEL_HOST": HOST,
            "VLLM_NIXL_SIDE_CHANNEL_PORT": str(self.port + 1000),
            **SAID,
            **self.environment,
        }


class Engine:
    """A running engine."""

    def __init__(self, spec: Spec, folder: Path, python: str = sys.executable) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.spec, self.log = spec, folder / f"{spec.tier}-{spec.port}.log"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [python, *spec.command()], stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env={**os.environ, **spec.variables()}, start_new_session=True,
            )  # fmt: skip
        self.started = time.monotonic()
        LEFT.mkdir(parents=True, exist_ok=True)
        (LEFT / str(self.process.pid)).touch()

    @property
    def url(self) -> str:
        return self.spec.url

    def wait_ready(self, limit_s: float = READY_LIMIT_S) -> float:
        """Seconds from its start until it serves. Raises NotReady."""
        while not _answers(f"{self.url}/v1/models"):
            if self.process.poll() is not None:
                raise NotReady(f"{self.log.name} ended with exit code {self.process.returncode}:\n{self.tail()}")
            if time.monotonic() - self.started > limit_s:
                raise NotReady(f"{self.log.name} was not ready within {limit_s:g} s:\n{self.tail()}")
            time.sleep(0.5)
        return time.monotonic() - self.started

    def tail(self, lines: int = 25) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def kill(self) -> None:
        """At once, with everything that it started."""
        self._signal(signal.SIGKILL)
        self.process.wait()
        (LEFT / str(self.process.pid)).unlink(missing_ok=True)

    def stop(self) -> None:
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(END_LIMIT_S)
        self.kill()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


@contextmanager
def serving(specs: Sequence[Spec], folder: Path, python: str = sys.executable) -> Iterator[list[Engine]]:
    """Engines that are ready, ended at the end; all of them start at once. Raises NotReady."""
    engines: list[Engine] = []
    try:
        engines += [Engine(spec, folder, python) for spec in specs]
        for engine in engines:
            engine.wait_ready()
        yield engines
    finally:
        for engine in engines:
            engine.stop()


def pair(model: Path, port: int = 8100, **changed: Any) -> list[Spec]:
    """A prefill and a decode engine, each on a GPU of its own; `changed` of both."""
    return [Spec(tier, model, NUMBER[tier], port + NUMBER[tier], **changed) for tier in ("prefill", "decode")]


def end_left_over() -> list[int]:
    """End the engines of a run that was itself killed: they would hold the GPUs' memory. Returns their process groups."""
    ended = []
    for path in LEFT.glob("[0-9]*"):
        group = int(path.name)
        if SERVE[1].encode() in _command_line(group):
            os.killpg(group, signal.SIGKILL)
            ended.append(group)
        path.unlink(missing_ok=True)
    return ended


def _command_line(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def gpus() -> int:
    """How many GPUs this machine has, by its driver's own tool; 0 without one."""
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError):
        return 0
    return sum(line.startswith("GPU ") for line in done.stdout.splitlines()) if done.returncode == 0 else 0


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return response.status == 200
    except (OSError, urllib.error.URLError):
        return False
