"""Cut an archive into parts that can be carried one by one, and say what belongs together.

Python's standard library alone: the other machine reads it, too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

PART_BYTES = 60 * 10**6
"""A call carries 64 MiB, the project's own 5 MB among them."""
READ_BYTES = 2**20
MANIFEST = "parts.json"


class PartsFault(Exception):
    """Parts that are missing or not those that were packed; the message says which."""


@dataclass(frozen=True)
class Part:
    """One file. `archive` names what it is a part of."""

    archive: str
    name: str
    bytes: int
    sha256: str


def cut(archive: str, stream: IO[bytes], folder: Path, part_bytes: int = PART_BYTES) -> list[Part]:
    """Write a stream as numbered files of at most `part_bytes`."""
    parts: list[Part] = []
    chunk = stream.read(min(READ_BYTES, part_bytes))
    while chunk:
        name = f"{archive}.{len(parts):02d}"
        digest, size = hashlib.sha256(), 0
        with (folder / name).open("wb") as file:
            while chunk and size < part_bytes:
                file.write(chunk)
                digest.update(chunk)
                size += len(chunk)
                chunk = stream.read(min(READ_BYTES, part_bytes - size) or min(READ_BYTES, part_bytes))
        parts.append(Part(archive, name, size, digest.hexdigest()))
    return parts


def even(total_bytes: int, part_bytes: int = PART_BYTES) -> int:
    """The size of parts that are alike: the last one is no remnant that costs a call."""
    count = max(-(-total_bytes // part_bytes), 1)
    return -(-total_bytes // count)


def write_manifest(folder: Path, parts: Sequence[Part]) -> None:
    (folder / MANIFEST).write_text(json.dumps([asdict(part) for part in parts], indent=1) + "\n")


def read_manifest(folder: Path) -> list[Part]:
    """Raises PartsFault where there is none."""
    path = folder / MANIFEST
    try:
        return [Part(**entry) for entry in json.loads(path.read_text())]
    except OSError as error:
        raise PartsFault(
            f"{path}: found {error.strerror}, wanted the list of parts: python -m tools.gpu.pack"
        ) from None


def joined(folder: Path, archive: str, parts: Sequence[Part]) -> Iterator[bytes]:
    """An archive's bytes from its parts in `folder`. Raises PartsFault for one that is missing or damaged."""
    mine = [part for part in parts if part.archive == archive]
    if not mine:
        raise PartsFault(f"archive {archive}: found no parts of it in {MANIFEST}; wanted it among the packed ones")
    missing = [part.name for part in mine if not (folder / part.name).is_file()]
    if missing:
        raise PartsFault(f"{folder}: found no {', '.join(missing)}; carry them there, each in a call of its own")
    for part in mine:
        yield from _checked(folder / part.name, part)


def _checked(path: Path, part: Part) -> Iterator[bytes]:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(READ_BYTES):
            digest.update(chunk)
            size += len(chunk)
            yield chunk
    if (size, digest.hexdigest()) != (part.bytes, part.sha256):
        raise PartsFault(f"{path}: found {size} bytes of another content, wanted the {part.bytes} that were packed")
