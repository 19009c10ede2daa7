"""Ten thousand clients that send a byte now and then, and what others see of it.

`python -m benchmarks.gateway_slow_clients` starts fake tiers and a gateway with its default limits, holds the
slow clients open (each comes again when it is hung up on), and asks a plain question twice a second meanwhile.
Ends with one line of JSON: how many questions were answered, turned away with 503 or lost, before, during and
after; the gateway's peak of connections and memory; and how long after the last slow client it served as before.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.gateway_overhead import TIERS, by_gateway, started_fake, started_gateway

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nX-Slow: "
DRIP_S = 2.0
ASK_EVERY_S = 0.5
CALM_S = 5.0
RECOVERY_LIMIT_S = 60.0
BODY: dict[str, Any] = {"model": "fake", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4,
                        "stream": True}  # fmt: skip


async def slow(port: int, until: float, counts: Counter[str]) -> None:
    """One slow client: it dribbles a header, and comes again when it is hung up on."""
    while time.monotonic() < until:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            counts["not_connected"] += 1
            await asyncio.sleep(DRIP_S)
            continue
        counts["connections"] += 1
        with contextlib.suppress(OSError):
            writer.write(HEAD)
            while time.monotonic() < until and not reader.at_eof():
                await asyncio.sleep(DRIP_S)
                writer.write(b"x")
                await writer.drain()
        writer.close()


async def ask(session: aiohttp.ClientSession, url: str, counts: Counter[str]) -> None:
    try:
        await by_gateway(session, url, BODY)
        counts["answered"] += 1
    except aiohttp.ClientResponseError as error:
        counts[f"status_{error.status}"] += 1
    except (aiohttp.ClientError, TimeoutError):
        counts["lost"] += 1


async def questions(session: aiohttp.ClientSession, url: str, seconds: float) -> Counter[str]:
    """One each ASK_EVERY_S, each on a connection of its own, and what became of them."""
    counts: Counter[str] = Counter()
    async with asyncio.TaskGroup() as asked:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            asked.create_task(ask(session, url, counts))
            await asyncio.sleep(ASK_EVERY_S)
    return counts


async def peaks(process: int, found: dict[str, float]) -> None:
    """The gateway's most open sockets and resident memory, from /proc."""
    folder = Path(f"/proc/{process}")
    while True:
        sockets = sum(1 for _ in (folder / "fd").iterdir())
        rss_kib = int((folder / "status").read_text().partition("VmRSS:")[2].split()[0])
        found["sockets"] = max(found.get("sockets", 0), sockets)
        found["rss_mb"] = max(found.get("rss_mb", 0.0), round(rss_kib * 1024 / 1e6, 1))
        await asyncio.sleep(0.5)


async def recovered(session: aiohttp.ClientSession, url: str) -> float:
    """Seconds until three questions in a row are answered."""
    started, row = time.monotonic(), 0
    while row < 3:
        if time.monotonic() - started > RECOVERY_LIMIT_S:
            return -1.0
        counts: Counter[str] = Counter()
        await ask(session, url, counts)
        row = row + 1 if counts["answered"] else 0
        await asyncio.sleep(0.1)
    return round(time.monotonic() - started, 1)


async def measured(clients: int, seconds: float) -> dict[str, Any]:
    async with contextlib.AsyncExitStack() as stack:
        urls = {tier: await started_fake(tier, stack) for tier in TIERS}
        url, process = await started_gateway(urls, stack)
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        timeout = aiohttp.ClientTimeout(total=20)
        session = await stack.enter_async_context(
            aiohttp.ClientSession(trust_env=False, connector=connector, timeout=timeout)
        )
        found: dict[str, float] = {}
        watch = asyncio.create_task(peaks(process, found))
        before = await questions(session, url, CALM_S)
        counts: Counter[str] = Counter()
        until = time.monotonic() + seconds
        crowd = [asyncio.create_task(slow(int(url.rpartition(":")[2]), until, counts)) for _ in range(clients)]
        during = await questions(session, url, seconds)
        await asyncio.gather(*crowd)
        back_s = await recovered(session, url)
        after = await questions(session, url, CALM_S)
        watch.cancel()
        return {
            "benchmark": "gateway_slow_clients", "clients": clients, "seconds": seconds, "slow": dict(counts),
            "before": dict(before), "during": dict(during), "after": dict(after), "recovered_s": back_s, **found,
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    asked = parser.parse_args()
    print(json.dumps(asyncio.run(measured(asked.clients, asked.seconds))))


if __name__ == "__main__":
    main()
