"""API keys: who may ask. One key a line in a file that is read again when it changes."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import time
from pathlib import Path

from .faults import Fault

REREAD_S = 5.0
"""A Secret's file changes under a running pod: a withdrawn key stops working within this time."""


class Keys:
    """No file: everyone may ask. An empty or unreadable file at start is an error, not an open door."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._digests: list[bytes] = []
        self._stamp: tuple[int, int] | None = None
        self._read_at = 0.0
        if path is not None:
            self._read()
            if not self._digests:
                raise SystemExit(f"gateway: --api-key-file {path}: no key in it")

    def _read(self) -> None:
        assert self._path is not None
        self._read_at = time.monotonic()
        status = os.stat(self._path)
        stamp = (status.st_mtime_ns, status.st_ino)
        if stamp == self._stamp:
            return
        lines = Path(self._path).read_text().splitlines()
        self._digests = [_digest(line.strip()) for line in lines if line.strip() and not line.startswith("#")]
        self._stamp = stamp

    def check(self, authorization: str | None) -> None:
        """Raises: Fault 401. Every key is compared, in constant time, as vLLM's own check does."""
        if self._path is None:
            return
        if time.monotonic() - self._read_at > REREAD_S:
            # Mid-swap of the mounted Secret the file may be missing: the keys that were read last stay good.
            with contextlib.suppress(OSError):
                self._read()
        scheme, _, given = (authorization or "").partition(" ")
        digest = _digest(given.strip())
        found = False
        for known in self._digests:
            found |= hmac.compare_digest(known, digest)
        if not found or scheme.lower() != "bearer":
            raise Fault(401, "the API key is missing or wrong: send `Authorization: Bearer KEY`", reason="unauthorized")


def _digest(key: str) -> bytes:
    """Of one length whatever the key's: a comparison can't tell how long a key is."""
    return hashlib.sha256(key.encode()).digest()
