"""Prefill and decode at once, for Mooncake: its prefiller tells nobody its address but its bootstrap server.

vLLM 0.32 `mooncake/mooncake_connector.py`: prefill answers without `kv_transfer_params`; both legs carry one
`transfer_id`, and decode needs `remote_engine_id` and `remote_bootstrap_addr` beside it (without one of them it
computes the prompt itself and says so in its log alone). The engine's id is new with each start, so the server is
asked for each request: a decoder that is told of an engine that is gone waits for it until its own limit.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import aiohttp

from .faults import Refused
from .json_text import NotJson, read_json
from .pods import Pod
from .samples import Sample
from .upstream import Upstream

RANK = "0"
"""One engine a server: the data-parallel rank that prefill would choose is not known beforehand."""


class Bootstrap:
    """The bootstrap servers of prefill pods: `port` on each pod's own address."""

    def __init__(self, upstream: Upstream, port: int) -> None:
        self._upstream = upstream
        self._port = port

    async def params_for(self, pod: Pod, sample: Sample) -> dict[str, Any]:
        """What decode is told. Raises: Refused 503, with the pod marked down, when its server doesn't say."""
        address = f"{pod.url.rpartition(':')[0]}:{self._port}"
        engine = await self._engine_at(address)
        if engine is None:
            self._upstream.telemetry.upstream_failures.labels("prefill", "bootstrap").inc()
            self._upstream.pods.mark_down(pod)
            message = "the prefill engine's bootstrap server names no engine"
            raise Refused(503, message, reason="prefill_bootstrap", retry_after_s=1)
        return {
            "do_remote_decode": False,
            "do_remote_prefill": True,
            "transfer_id": transfer_id(sample),
            "remote_engine_id": engine,
            "remote_bootstrap_addr": address,
        }

    async def _engine_at(self, address: str) -> str | None:
        """The engine's id, as `/query` answers: {rank: {engine_id, worker_addr}} (`mooncake_utils.py`)."""
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, NotJson, KeyError, TypeError):
            async with (
                asyncio.timeout(self._upstream.settings.connect_limit_s),
                self._upstream.session.get(address + "/query", allow_redirects=False) as response,
            ):
                if response.status == 200:
                    return read_json(await response.read())[RANK]["engine_id"]
        return None


def ask_to_keep(sample: Sample) -> dict[str, Any]:
    """What prefill is told."""
    return {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": transfer_id(sample)}


def transfer_id(sample: Sample) -> str:
    """The same on both legs; nobody else can guess it, since the request's id ends in random digits."""
    return "transfer-" + sample.headers["X-Request-Id"]
