"""How many prompts a render server renders a second, and on how much CPU: `python -m benchmarks.render_rate`.

Starts one real `vllm launch render` with default settings on the local cluster's model, and asks it for
chats of about 9,000 tokens from 1, 4 and 16 clients at a time. The article's figure for Qwen2.5-7B: 15 ms
of CPU a prompt, at most 73 requests a second on just over one core. The clients run beside the server, on
a core of their own where there are two. Ends with one line of JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
from rich.console import Console

from tools.cache import CHECKOUT, cache
from tools.localcluster.vllm.environment import python_of_vllm

MODEL = CHECKOUT / ".local/models/tiny-qwen3"
WANTED_TOKENS = 9_000
MAX_MODEL_LEN = 16_384
SECONDS = 15.0
CLIENTS = (1, 4, 16)
START_LIMIT_S = 120
ARTICLE_REQUESTS_PER_S = 73
CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
console = Console(stderr=True, highlight=False)


@contextlib.contextmanager
def render_server(port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A render server on 127.0.0.1, ended with the block."""
    command = [
        python_of_vllm(), "-m", "vllm.entrypoints.cli.main", "launch", "render", str(MODEL), "--served-model-name", "m",
        "--host", "127.0.0.1", "--port", str(port), "--max-model-len", str(MAX_MODEL_LEN), "--dtype", "bfloat16",
        "--disable-uvicorn-access-log",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(cache().layout().vllm), "PYTHONDONTWRITEBYTECODE": "1"}
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, cwd=log.parent, stdout=output, stderr=output)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)


def cpu_seconds(process: int) -> float:
    """Of a process and its threads: utime and stime, fields 14 and 15 of proc_pid_stat(5)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS_PER_S


def chat(words: int) -> dict[str, Any]:
    """A chat of so many words of this project's own licence text, in an order of its own."""
    text = (CHECKOUT / "LICENSE").read_text().split()
    return {"model": "m", "messages": [{"role": "user", "content": " ".join(random.choices(text, k=words))}]}


async def rendered(session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> int:
    """How many tokens a chat became."""
    async with session.post(f"{url}/v1/chat/completions/render", json=body) as answer:
        found = await answer.json()
        assert answer.status == 200, found
        return len(found["token_ids"])


async def words_for(session: aiohttp.ClientSession, url: str) -> int:
    """How many words make about WANTED_TOKENS."""
    return int(1000 * WANTED_TOKENS / await rendered(session, url, chat(1000)))


async def measure(session: aiohttp.ClientSession, url: str, process: int, clients: int, words: int) -> dict[str, Any]:
    """Closed loop: each client sends its next chat when the last one is answered."""
    times_ms: list[float] = []
    tokens: list[int] = []
    started, used = time.monotonic(), cpu_seconds(process)

    async def client() -> None:
        while time.monotonic() - started < SECONDS:
            begun = time.monotonic()
            tokens.append(await rendered(session, url, chat(words)))
            times_ms.append((time.monotonic() - begun) * 1000)

    await asyncio.gather(*(client() for _ in range(clients)))
    seconds, cores = time.monotonic() - started, cpu_seconds(process) - used
    times_ms.sort()
    return {
        "clients": clients,
        "requests_per_s": round(len(times_ms) / seconds, 1),
        "cores": round(cores / seconds, 2),
        "cpu_ms_a_request": round(cores / len(times_ms) * 1000, 1),
        "p50_ms": round(times_ms[len(times_ms) // 2], 1),
        "p99_ms": round(times_ms[int(len(times_ms) * 0.99)], 1),
        "mean_tokens": round(sum(tokens) / len(tokens)),
    }


async def wait_healthy(session: aiohttp.ClientSession, url: str) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(aiohttp.ClientError):
            async with session.get(f"{url}/health") as answer:
                if answer.status == 200:
                    return
        await asyncio.sleep(0.5)
    sys.exit(f"the render server did not start within {START_LIMIT_S} s: see its log")


async def run(url: str, process: int) -> list[dict[str, Any]]:
    async with aiohttp.ClientSession(trust_env=False, timeout=aiohttp.ClientTimeout(total=60)) as session:
        await wait_healthy(session, url)
        words = await words_for(session, url)
        found = []
        for clients in CLIENTS:
            found.append(await measure(session, url, process, clients, words))
            console.print(found[-1])
        return found


def main() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = CHECKOUT / ".local/render-rate.log"
    with render_server(port, log) as process:
        found = asyncio.run(run(f"http://127.0.0.1:{port}", process.pid))
    best = max(found, key=lambda row: row["requests_per_s"])
    per_core = best["requests_per_s"] / max(best["cores"], 0.01)
    print(json.dumps({
        "benchmark": "render_rate",
        "runs": found,
        "requests_per_s_a_core": round(per_core, 1),
        "article_requests_per_s": ARTICLE_REQUESTS_PER_S,
        "ratio_to_article": round(best["requests_per_s"] / ARTICLE_REQUESTS_PER_S, 2),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
