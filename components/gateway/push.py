"""Prefill and decode at once, for connectors that push (NixlPushConnector).

vLLM 0.32 `nixl/push_scheduler.py`: decode must register its blocks with the prefill engine, for which it
needs `remote_engine_id`, `remote_host`, `remote_port` and `tp_size` (a missing one is a KeyError in the
scheduler, that is a dead engine) before prefill has answered. They are the same for each request to
one prefill server, so the first request to a server goes one leg after the other, and what its answer
says is kept for the next. Prefill finds the registration by request id, without the random suffix
(`push_worker.py`), so both legs carry one id that nobody else can guess.
"""

from __future__ import annotations

from typing import Any

from .faults import Refused
from .pods import Pod
from .samples import Sample

LASTING = ("remote_engine_id", "remote_host", "remote_port", "tp_size", "dcp_size", "pp_size", "transfer_mode")
NEEDED = ("remote_engine_id", "remote_host", "remote_port", "tp_size")


class Peers:
    """Prefill server -> what its answers say about itself. One engine a server: with data parallel ranks
    behind one port each answer may name another engine, and nothing lasting is known."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Any]] = {}

    def learn(self, pod: Pod, params: dict[str, Any]) -> None:
        if all(params.get(name) is not None for name in NEEDED):
            self._known[pod.url] = {name: params[name] for name in LASTING if name in params}

    def forget(self, pod: Pod) -> None:
        self._known.pop(pod.url, None)

    def params_for(self, pod: Pod, sample: Sample) -> dict[str, Any] | None:
        """What decode is told while prefill still runs, or None for a server not yet known."""
        known = self._known.get(pod.url)
        if known is None:
            return None
        return known | {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": [],
            "remote_request_id": "generate-tokens-" + sample.headers["X-Request-Id"],
            "remote_num_tokens": len(sample.token_ids),
        }

    def check(self, pod: Pod, params: dict[str, Any]) -> None:
        """Raises: Refused when the server has restarted: decode was told of an engine that is gone."""
        known = self._known.get(pod.url)
        if known is not None and known["remote_engine_id"] != params.get("remote_engine_id"):
            self.learn(pod, params)
            raise Refused(503, "the prefill engine has restarted", reason="prefill_restarted", retry_after_s=1)
