"""Export what a file says, and fail once that is saved, as the deploying program does after a refused release."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pulumi

OUTPUTS_SAVED_S = 1

for name, value in json.loads(Path(os.environ["PRODUCED"]).read_text()).items():
    pulumi.export(name, pulumi.Output.secret(value) if name == os.environ.get("PRODUCED_SECRET") else value)

if os.environ.get("PRODUCER_FAILS"):

    async def fail(_: int) -> None:
        await asyncio.sleep(OUTPUTS_SAVED_S)
        raise pulumi.RunError("the release was refused")

    pulumi.Output.from_input(0).apply(fail)
