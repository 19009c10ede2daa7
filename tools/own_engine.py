"""Which Pulumi engine a checkout uses: the user's own if it is new enough, else the one we build.

The local stack holds no secrets, so its passphrase is public, like the committed salt that goes with
it. A backend, home or passphrase that the user has set is left alone.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from infra.versions import PULUMI_MINIMUM
from tools.cache import CHECKOUT

LOCAL_PASSPHRASE = "splitserve-local"


@functools.cache
def own_pulumi() -> bool:
    """Whether PATH has a `pulumi` that is not ours and is new enough."""
    path = shutil.which("pulumi")
    if path is None or "/splitserve/engine/" in os.path.realpath(path):
        return False
    printed = subprocess.run([path, "version"], capture_output=True, text=True, check=False).stdout
    return version_of(printed) >= version_of(PULUMI_MINIMUM)


def version_of(text: str) -> tuple[int, ...]:
    """The first three numbers of a version; nothing for what is none."""
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", text)
    return tuple(int(part) for part in found.groups()) if found else ()


def backend_url(folder: Path) -> str:
    """A folder as Pulumi's backend.

    Without the files of metadata beside each state: a `pulumi` that is killed while it writes one leaves it
    empty, and every later command fails with "failed to load checkpoint: EOF" (pulumi 3.274, gocloud.dev fileblob).
    """
    return f"file://{folder}?metadata=skip"


def engine_environment() -> dict[str, str]:
    """Backend, home and passphrase for plain `pulumi` in this checkout."""
    local = CHECKOUT / ".local"
    (local / "state").mkdir(parents=True, exist_ok=True)
    defaults = {
        "PULUMI_BACKEND_URL": backend_url(local / "state"),
        "PULUMI_CONFIG_PASSPHRASE": LOCAL_PASSPHRASE,
    }
    chosen = {name: os.environ.get(name, value) for name, value in defaults.items()}
    chosen["PULUMI_PYTHON_CMD"] = str(CHECKOUT / ".venv/bin/python")
    chosen["PULUMI_SKIP_UPDATE_CHECK"] = "true"
    if os.environ.get("PYTHONDONTWRITEBYTECODE"):
        # Without any byte code each command compiles the SDKs anew, for 5 s of CPU; with it kept here, the
        # packages' own folders stay as they are.
        chosen["PYTHONDONTWRITEBYTECODE"] = ""
        chosen["PYTHONPYCACHEPREFIX"] = str(local / "byte-code")
    if not own_pulumi():
        # Plugins that we built must not be looked for on the network, nor mixed with the user's.
        chosen["PULUMI_HOME"] = str(local / "pulumi")
        chosen["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] = "true"
    return chosen
