"""The start-up probe says started only when the engine has answered a request."""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.serving import warm_up
from tests.unit.plans import changed as change
from tests.unit.test_release import build
from tests.unit.test_settings import changed


class Engine(http.server.BaseHTTPRequestHandler):
    """Answers as vLLM does, with what the test sets."""

    status, answer = 200, {"choices": [{"text": " there"}]}
    asked: list[Any] = []

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        Engine.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        body = json.dumps(Engine.answer).encode()
        self.send_response(Engine.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.HTTPServer(("127.0.0.1", 0), Engine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def probe(port: int) -> int:
    """Run the probe exactly as the pod's specification says, with this Python."""
    settings = change(changed("engine.port", port), ("engine.loadLimitS", 1))
    command = build(settings).pods["decode"]["containers"][0]["startupProbe"]["exec"]["command"]
    return subprocess.run([sys.executable, *command[1:]], capture_output=True).returncode


@pytest.mark.parametrize(
    ("status", "answer", "code"),
    [(200, {"choices": [{"text": "x"}]}, 0), (503, {}, 1), (200, {"error": "no engine"}, 1)],
)
def test_started_means_answered(port: int, status: int, answer: dict[str, Any], code: int) -> None:
    Engine.status, Engine.answer = status, answer
    Engine.asked.clear()
    assert probe(port) == code
    assert Engine.asked[0]["model"] == "tiny"
    assert len(Engine.asked[0]["prompt"].split()) >= 64, "a short first prompt ends vLLM on a CPU with AMX"


def test_an_engine_that_does_not_listen_is_not_started(port: int) -> None:
    assert probe(port + 1 if port < 65535 else port - 1) == 1


def test_it_waits_for_an_engine_that_listens_later() -> None:
    Engine.status, Engine.answer = 200, {"choices": [{"text": "x"}]}
    with http.server.HTTPServer(("127.0.0.1", 0), Engine) as server:
        later = threading.Timer(1.5, server.serve_forever)
        later.start()
        source = Path(warm_up.__file__).read_text()
        arguments = [str(server.server_address[1]), "tiny", "20"]
        done = subprocess.run([sys.executable, "-I", "-S", "-c", source, *arguments], capture_output=True)
        server.shutdown()
    assert done.returncode == 0
