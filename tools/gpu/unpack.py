"""On the GPU machine: join the carried parts and unpack them beside that machine's own torch.

    python3 -m tools.gpu.unpack /tmp/p /tmp/site base moe

Python's standard library alone. Writes `env.sh` into the tree: `. /tmp/site/env.sh` makes it usable.
"""

from __future__ import annotations

import argparse
import io
import shlex
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

from tools.gpu.parts import PartsFault, joined, read_manifest

OVERLAY = Path(__file__).with_name("overlay")
ENVIRONMENT = {
    "VLLM_USE_FLASHINFER_SAMPLER": "0",  # it is not carried
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Of every engine there."""


class Stream(io.RawIOBase):
    """Chunks as a file that can be read once."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.chunks, self.rest = chunks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        while not self.rest:
            chunk = next(self.chunks, None)
            if chunk is None:
                return 0
            self.rest = chunk
        count = min(len(buffer), len(self.rest))
        buffer[:count], self.rest = self.rest[:count], self.rest[count:]
        return count


def unpack(parts: Path, site: Path, archives: list[str]) -> int:
    """Unpack archives into `site` and lay the overlay over them. Returns the number of files. Raises PartsFault."""
    known, count = read_manifest(parts), 0
    for archive in archives:
        stream = io.BufferedReader(Stream(joined(parts, archive, known)), 2**20)  # type: ignore[type-var, arg-type]
        with tarfile.open(fileobj=stream, mode="r|xz") as tar:
            for member in tar:
                tar.extract(member, site, filter="data")
                count += 1
    shutil.copytree(OVERLAY, site, dirs_exist_ok=True)
    return count


def environment(site: Path, checkout: Path) -> str:
    """What makes the tree, and this project beside it, importable, as a shell script."""
    variables = {"PYTHONPATH": f"{site.resolve()}:{checkout.resolve()}", **ENVIRONMENT}
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", type=Path)
    parser.add_argument("site", type=Path)
    parser.add_argument("archives", nargs="+")
    asked = parser.parse_args()
    try:
        unpack(asked.parts, asked.site, asked.archives)
    except PartsFault as fault:
        raise SystemExit(f"unpack: {fault}") from None
    (asked.site / "env.sh").write_text(environment(asked.site, Path.cwd()))


if __name__ == "__main__":
    main()
