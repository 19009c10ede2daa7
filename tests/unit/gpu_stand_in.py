"""Stands in for a vLLM process on a GPU: takes its command line, serves what a check, a probe and a load generator ask.

What it moves follows from its arguments, as on the real machine: slow without peer access, nothing without a connector,
no answer for a decoder in the decoder's role, failed transfers between unlike block sizes. It prints UCX's table.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

from tests.unit.fake_vllm import Engine, Server
from tests.unit.transports import CUDA_IPC, TCP

FAST_MS, SLOW_MS = 3.0, 250.0
PIECE_MS = 0.001
GAP_S = 0.0005


class Process(Engine):
    """An engine that knows its own block size, tells it to a decoder, and streams."""

    def __init__(self, options: dict[str, str], model: dict[str, Any]) -> None:
        transfer = json.loads(options.get("--kv-transfer-config", "null"))
        block = int(options["--block-size"])
        heads = model.get("head_dim") or model["hidden_size"] // model["num_attention_heads"]
        self.layers = model["num_hidden_layers"]
        self.slow = os.environ.get("UCX_TLS", "").startswith("tcp")
        super().__init__(
            connector="nixl" if transfer else None, ms=SLOW_MS if self.slow else FAST_MS,
            bytes_per_token=4 * self.layers * model["num_key_value_heads"] * heads, models=("model",),
            max_model_len=int(options["--max-model-len"]), cache_blocks=int(options["--num-gpu-blocks-override"]),
            block_size=block, consumer=bool(transfer) and transfer["kv_role"] == "kv_consumer",
        )  # fmt: skip
        self.birth = 1_790_000_000 + os.getpid()

    def answer(self, body: dict[str, Any]) -> tuple[int, Any]:
        params = body.get("kv_transfer_params") or {}
        if self.connector and params.get("do_remote_prefill"):
            self.fails = params.get("block_size") != self.block_size
            time.sleep(self.ms / 1000)
        status, reply = super().answer(body)
        if reply.get("kv_transfer_params"):
            reply["kv_transfer_params"]["block_size"] = self.block_size
        if status == 200 and body.get("stream"):
            return status, streamed(body["max_tokens"])
        return status, reply

    def _receive(self, tokens: int) -> None:
        """As measured: one piece a layer fresh, one for each block aged."""
        before = self.descriptors
        super()._receive(tokens)
        pieces = self.layers * (-(-tokens // self.block_size) if self.aged else 1)
        self.descriptors = before + pieces
        self.seconds += pieces * PIECE_MS / 1000


def streamed(tokens: int) -> str:
    """Server-sent events, one a token."""
    event = json.dumps({"choices": [{"text": "x"}]})
    return "".join(f"data: {event}\n\n" for _ in range(tokens)) + "data: [DONE]\n\n"


def main() -> None:
    words = sys.argv[1:]
    at = words.index("serve")
    options = {word: words[number + 1] for number, word in enumerate(words[:-1]) if word.startswith("--")}
    with open(os.path.join(words[at + 1], "config.json")) as file:
        engine = Process(options, json.load(file))
    print(TCP if engine.slow else CUDA_IPC, flush=True)
    Server(engine, port=int(options["--port"]))
    signal.pause()


if __name__ == "__main__":
    main()
