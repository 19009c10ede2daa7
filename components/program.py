"""A package of ours as one file that Python runs (a zipapp), for a ConfigMap of the pod that runs it.

The same sources give the same bytes: what is named by their hash, or is part of a release, stays the same
with every checkout.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

PACKER = "packed.py"
"""The one file of such a package that is not part of the program: it packs the others."""
EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The first time that zip can write, in place of a file's own."""
UNIX = 3
"""Else the byte tells which system packed it."""


def program(folder: Path, start: str) -> bytes:
    """The zip of a package with a `__main__.py` that calls `main` of its module `start`."""
    main = f"from {folder.name}.{start} import main\n\nmain()\n"
    files = {f"{folder.name}/{path.name}": path.read_text() for path in folder.glob("*.py") if path.name != PACKER}
    return archive({**files, "__main__.py": main})


def archive(files: Mapping[str, str]) -> bytes:
    """The zip of sources by their path; Python runs its `__main__.py`."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as zipped:
        for name, text in sorted(files.items()):
            entry = zipfile.ZipInfo(name, EARLIEST)
            entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, UNIX
            entry.external_attr = 0o644 << 16
            zipped.writestr(entry, text)
    return out.getvalue()
