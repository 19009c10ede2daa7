"""A gate's process ends with its engine, and not before."""

from __future__ import annotations

import socket
import threading

import pytest

from components.release import progress


def test_the_watch_says_gone_only_after_the_engine_has_stopped_listening(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "ENGINE_POLL_S", 0.02)
    gone = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as engine:
        watcher = threading.Thread(target=progress.watch, args=(engine.getsockname(), gone.set), daemon=True)
        watcher.start()
        assert not gone.wait(0.3)
    assert gone.wait(5)


@pytest.mark.parametrize(
    ("argument", "address"),
    [("127.0.0.1:4711", ("127.0.0.1", 4711)), ("tests/unit/a.py::b", None), ("-q", None), ("host:", None)],
)
def test_the_engine_is_the_last_argument(
    monkeypatch: pytest.MonkeyPatch, argument: str, address: tuple[str, int] | None
) -> None:
    monkeypatch.setattr(progress.sys, "argv", ["plugin", argument])
    progress.engine_address.cache_clear()
    try:
        assert progress.engine_address() == address
    finally:
        progress.engine_address.cache_clear()
