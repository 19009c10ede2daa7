"""Pack what vLLM needs on a GPU machine without network: `python -m tools.gpu.pack`.

Downloads the wheels of packages.txt for that machine's Python, selects their files (selection.py) and writes each
archive as parts of at most 60 MB into `.gpu/`, which git ignores. Nothing is installed here.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from tools.cache import CHECKOUT
from tools.gpu.parts import MANIFEST, Part, cut, even, read_manifest, write_manifest
from tools.gpu.selection import ARCHIVES, archive_of, placed

FOLDER = CHECKOUT / ".gpu"
PACKAGES = Path(__file__).with_name("packages.txt")
PYTHON = "3.12"
GLIBC_MINORS = (39, 36, 35, 34, 31, 28, 27, 24, 17, 12, 5)
"""pip matches a platform tag exactly; the other machine's glibc takes all of these."""
LEVEL = "3"
"""Higher ones shrink little: most of it is GPU code, which is compressed already."""


class PackFault(Exception):
    """What keeps the parts from being made."""


def requirements(text: str) -> dict[str, str]:
    """{name: version} of a file of `name==version` lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return dict(line.split("==", 1) for line in lines)


def wheel_name(path: str) -> str:
    """A wheel's distribution as pip compares names."""
    return path.split("-")[0].replace("_", "-").replace(".", "-").lower()


def missing_wheels(wanted: dict[str, str], files: Sequence[str]) -> list[str]:
    """`name==version` of those that no file is a wheel of."""
    found = {(wheel_name(file), file.split("-")[1]) for file in files if file.endswith(".whl")}
    return [f"{name}=={version}" for name, version in wanted.items()
            if (name.replace("_", "-").replace(".", "-").lower(), version) not in found]  # fmt: skip


def download(folder: Path) -> list[Path]:
    """The wheels of packages.txt. Raises PackFault naming those that can't be had."""
    wanted = requirements(PACKAGES.read_text())
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in GLIBC_MINORS] + [
        "manylinux2014_x86_64",
        "manylinux1_x86_64",
    ]
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--python-version", PYTHON,
               "--implementation", "cp", "--abi", f"cp{PYTHON.replace('.', '')}", "--abi", "abi3", "--abi", "none",
               *(f"--platform={platform}" for platform in platforms), "--progress-bar", "off", "-d", str(folder)]  # fmt: skip
    absent = missing_wheels(wanted, [path.name for path in folder.glob("*.whl")])
    if absent and subprocess.run([*command, *absent], check=False).returncode:
        still = missing_wheels(wanted, [path.name for path in folder.glob("*.whl")])
        raise PackFault(f"pip found no wheels for: {', '.join(still)}; wanted them for Python {PYTHON} on x86-64 Linux: "
                        f"correct the versions in {PACKAGES}")  # fmt: skip
    if still := missing_wheels(wanted, [path.name for path in folder.glob("*.whl")]):
        raise PackFault(f"{folder}: found no wheel of {', '.join(still)}")
    chosen = {f"{name}=={version}" for name, version in wanted.items()}
    return sorted(p for p in folder.glob("*.whl") if not chosen.isdisjoint(_named(p.name, wanted)))


def _named(file: str, wanted: dict[str, str]) -> list[str]:
    return [f"{name}=={version}" for name, version in wanted.items() if not missing_wheels({name: version}, [file])]


def members(wheels: Sequence[Path], archive: str) -> Iterator[tuple[zipfile.ZipFile, zipfile.ZipInfo, str]]:
    """(wheel, its entry, where it goes) of each file of an archive."""
    for path in wheels:
        with zipfile.ZipFile(path) as wheel:
            for entry in wheel.infolist():
                if not entry.is_dir() and archive_of(path.name, entry.filename) == archive:
                    yield wheel, entry, placed(entry.filename)


def write_tar(wheels: Sequence[Path], archive: str, out: IO[bytes]) -> int:
    """An archive's files as a tar stream. Returns their bytes."""
    size = 0
    with tarfile.open(fileobj=out, mode="w|") as tar:
        for wheel, entry, name in members(wheels, archive):
            made = tarfile.TarInfo(name)
            made.size, made.mode = entry.file_size, 0o755 if entry.external_attr >> 16 & 0o111 else 0o644
            with wheel.open(entry) as content:
                tar.addfile(made, content)
            size += entry.file_size
    return size


def pack_archive(wheels: Sequence[Path], archive: str, folder: Path, threads: int) -> list[Part]:
    """Compress an archive and cut it."""
    if shutil.which("xz") is None:
        raise PackFault("found no `xz`, wanted it to compress: apt-get install xz-utils")
    raw = folder / f"{archive}.tar.xz"
    with raw.open("wb") as file:
        xz = subprocess.Popen(["xz", f"-{LEVEL}", f"-T{threads}"], stdin=subprocess.PIPE, stdout=file)
        assert xz.stdin
        size = write_tar(wheels, archive, xz.stdin)
        xz.stdin.close()
        if xz.wait():
            raise PackFault(f"xz ended with exit code {xz.returncode}")
    with raw.open("rb") as stream:
        parts = cut(archive, stream, folder, even(raw.stat().st_size))
    raw.unlink()
    print(
        f"{archive}: {size / 1e6:.0f} MB in {len(parts)} parts of {sum(part.bytes for part in parts) / 1e6:.0f} MB in all"
    )
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archives", nargs="+", choices=ARCHIVES, default=list(ARCHIVES))
    parser.add_argument("--threads", type=int, default=1, help="of xz")
    asked = parser.parse_args()
    wheels = FOLDER / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    try:
        found = download(wheels)
        kept = [] if not (FOLDER / MANIFEST).exists() else read_manifest(FOLDER)
        for archive in asked.archives:
            for old in FOLDER.glob(f"{archive}.[0-9][0-9]"):
                old.unlink()
            made = pack_archive(found, archive, FOLDER, asked.threads)
            kept = [part for part in kept if part.archive != archive] + made
            write_manifest(FOLDER, kept)
    except PackFault as fault:
        raise SystemExit(f"pack: {fault}") from None


if __name__ == "__main__":
    main()
