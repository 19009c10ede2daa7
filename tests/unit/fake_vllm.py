"""vLLM engines over real HTTP, as far as a check sees them: models, metrics, completions, and their faults."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, cycle
from typing import Any

BYTES_PER_TOKEN = 1024
BLOCK = 16
BY_SOURCE = "vllm:prompt_tokens_by_source_total"
births = count(1_790_000_000)


class Engine:
    """One engine's state. What it moves follows from its arguments; attributes may be changed while it serves."""

    def __init__(self, *, connector: str | None = "nixl", ms: float = 20.0, aged_ms: float | None = None,
                 share: float = 1.0, constant_bytes: int = 0, bytes_per_token: int = BYTES_PER_TOKEN,
                 damaged: bool = False, fails: bool = False, pushes_from: Engine | None = None,
                 statistics: bool = True, born: bool = True, models: Sequence[str] = ("tiny",), root: str = "/model",
                 max_model_len: int = 512, cache_blocks: int = 64, block_size: int = BLOCK,
                 arrival: str = BY_SOURCE, consumer: bool = False) -> None:  # fmt: skip
        self.connector, self.ms, self.aged_ms, self.share = connector, ms, aged_ms, share
        self.constant_bytes, self.bytes_per_token, self.damaged, self.fails = (
            constant_bytes,
            bytes_per_token,
            damaged,
            fails,
        )
        self.pushes_from, self.statistics, self.models, self.root = pushes_from, statistics, models, root
        self.max_model_len, self.cache_blocks, self.block_size = max_model_len, cache_blocks, block_size
        self.arrival, self.consumer = arrival, consumer
        self.birth = next(births) if born else None
        self.tokens = self.external = self.transfers = self.failed = 0
        self.seconds = self.bytes = self.descriptors = 0.0
        self.requests = 0
        self.lock = threading.Lock()
        self.renamed: dict[str, str] = {}

    def restart(self) -> None:
        self.birth = next(births)
        self.tokens = self.external = self.transfers = 0
        self.seconds = self.bytes = self.descriptors = 0.0

    @property
    def aged(self) -> bool:
        return self.tokens > self.cache_blocks * self.block_size

    def page(self) -> str:
        if not self.statistics:
            return "python_info 1.0\n"
        lines = [
            f'vllm:cache_config_info{{block_size="{self.block_size}",cache_dtype="auto",num_gpu_blocks="{self.cache_blocks}"}} 1.0',
            f'vllm:prompt_tokens_total{{engine="0"}} {self.tokens}',
            f'{self.arrival}{{source="external_kv_transfer",engine="0"}} {self.external}',
        ]
        if self.arrival == BY_SOURCE:
            lines.append(f'{BY_SOURCE}{{source="local_compute",engine="0"}} {self.tokens - self.external}')
        if self.birth:
            lines += [f"process_start_time_seconds {self.birth}", f"vllm:prompt_tokens_created {self.birth}.5"]
        if self.connector == "nixl":
            lines += [
                f"vllm:nixl_xfer_time_seconds_sum {self.seconds}",
                f"vllm:nixl_post_time_seconds_sum {self.transfers * 0.001}",
                f"vllm:nixl_bytes_transferred_sum {self.bytes}",
                f"vllm:nixl_num_descriptors_sum {self.descriptors}",
                f"vllm:nixl_xfer_time_seconds_count {self.transfers}",
                f"vllm:nixl_num_failed_transfers_total {self.failed}",
            ]
        page = "\n".join(lines) + "\n"
        for old, new in self.renamed.items():
            page = page.replace(old, new)
        return page

    def answer(self, body: dict[str, Any]) -> tuple[int, Any]:
        """(HTTP status, JSON) of a completion."""
        with self.lock:
            self.requests += 1
            prompt, params = body["prompt"], body.get("kv_transfer_params") or {}
            if len(prompt) + body["max_tokens"] > self.max_model_len:
                return 400, {"error": f"the context has {self.max_model_len} tokens"}
            self.tokens += len(prompt)
            reply: dict[str, Any] = {"choices": [{"text": f"answer to {sum(prompt)}"}]}
            if params.get("do_remote_prefill"):
                if self.fails:
                    self.failed += 1
                    return 500, {"error": "KV load failure"}
                self._receive(len(prompt))
                if self.damaged:
                    reply["choices"][0]["text"] += " or so"
            if params.get("do_remote_decode") and self.connector and not self.consumer:
                reply["kv_transfer_params"] = {"do_remote_prefill": True}
            return 200, reply

    def _receive(self, tokens: int) -> None:
        if not self.connector or not self.share:
            return
        self.external += int(tokens * self.share)
        if self.connector != "nixl":
            return
        counting = self.pushes_from or self
        blocks = -(-int(tokens * self.share) // self.block_size)
        counting.transfers += 1
        counting.bytes += blocks * self.block_size * self.bytes_per_token + self.constant_bytes
        counting.descriptors += 4 * blocks if self.aged else 4
        counting.seconds += (self.aged_ms if self.aged_ms and self.aged else self.ms) / 1000


class Server:
    """HTTP before one engine, or in turns before several. `key`: what it wants; `answers`: instead of an engine's."""

    def __init__(self, *engines: Engine, key: str | None = None, answers: Any = None, delay_s: float = 0.0,
                 port: int = 0) -> None:  # fmt: skip
        self.engines, self.key, self.answers, self.delay_s = engines, key, answers, delay_s
        self.turns = cycle(engines)
        self.seen: list[tuple[str, str | None]] = []
        self.open = 0
        self.http = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()
        self.is_up = True

    def stop(self) -> None:
        if self.is_up:
            self.is_up = False
            self.http.shutdown()
            self.http.server_close()
            self.thread.join()

    def reply(self, path: str, body: dict[str, Any] | None) -> tuple[int, Any]:
        """(status, JSON or text) of a request."""
        engine = next(self.turns)
        if path == "/metrics":
            return 200, engine.page()
        if path == "/v1/models":
            cards = [{"id": name, "root": engine.root, "max_model_len": engine.max_model_len} for name in engine.models]
            return 200, {"data": cards}
        return engine.answer(body or {})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.handle_one(None)

            def do_POST(self) -> None:
                self.handle_one(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def handle_one(self, body: dict[str, Any] | None) -> None:
                server.seen.append((self.path, self.headers.get("Authorization")))
                server.open += 1
                try:
                    self.respond(body)
                except OSError:
                    pass  # the client is gone
                finally:
                    server.open -= 1

            def respond(self, body: dict[str, Any] | None) -> None:
                time.sleep(server.delay_s)
                if server.key and self.headers.get("Authorization") != f"Bearer {server.key}":
                    status, content = 401, {"error": "Unauthorized"}
                elif server.answers:
                    answered = server.answers(self, body)
                    if answered is None:
                        return
                    status, content = answered
                else:
                    status, content = server.reply(self.path, body)
                sent = (content if isinstance(content, str) else json.dumps(content)).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


@contextmanager
def serving(*parts: Engine | Server) -> Iterator[list[Server]]:
    """Servers before engines (or as they are), stopped at the end."""
    servers = [part if isinstance(part, Server) else Server(part) for part in parts]
    try:
        yield servers
    finally:
        for server in servers:
            server.stop()


def between(prefill: Server, decode: Server) -> Server:
    """A router before both: prefill, then decode, as vllm-router does."""

    def answers(request: Any, body: dict[str, Any] | None) -> tuple[int, Any]:
        assert body is not None
        asked = body | {"max_tokens": 1, "kv_transfer_params": {"do_remote_decode": True}}
        _, first = prefill.reply("/v1/completions", asked)
        return decode.reply("/v1/completions", body | {"kv_transfer_params": first.get("kv_transfer_params")})

    return Server(answers=answers)
