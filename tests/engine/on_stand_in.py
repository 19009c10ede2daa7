"""The environment of `pulumi` for a test's own program on AWS's stand-in."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tools.awsim.running import AwsStandIn, install_plugin
from tools.cache import CHECKOUT, cache
from tools.local import full_environment
from tools.own_engine import backend_url

NOT_READY_AFTER_S = "20"
"""How long the stand-in's provider waits for what AWS makes slowly."""


def engine_on(folder: Path, aws: AwsStandIn) -> dict[str, str]:
    """An engine with a home and a backend of its own below `folder`, whose `aws` is the stand-in."""
    home, state = folder / "home", folder / "state"
    state.mkdir()
    install_plugin(home)
    environment = {
        **os.environ, **full_environment(cache()), **aws.environment(), "PULUMI_HOME": str(home),
        "PULUMI_BACKEND_URL": backend_url(state), "PULUMI_CONFIG_PASSPHRASE": "", "AWSIM_WAIT_S": NOT_READY_AFTER_S,
        "PULUMI_PYTHON_CMD": sys.executable, "PYTHONPATH": str(CHECKOUT),
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }  # fmt: skip
    assert shutil.which("pulumi", path=environment["PATH"]), "no pulumi: run `make start` first"
    return environment
