"""Ports for servers that must know theirs before they listen."""

from __future__ import annotations

import itertools
import os
import socket

# Below what Linux takes for outgoing connections (32768 on), and a part for each process of pytest-xdist:
# nobody else takes a port between its choice and its use.
_FIRST, _EACH = 18000, 3500
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_BEGIN = os.getpid() * 37 % _EACH
"""Two runs of tests on one machine begin elsewhere."""
_candidates = itertools.cycle(_FIRST + _WORKER * _EACH + (_BEGIN + offset) % _EACH for offset in range(_EACH))


def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens."""
    for port in itertools.islice(_candidates, _EACH):
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no port of {_EACH} is free")
