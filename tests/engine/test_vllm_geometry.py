"""vLLM's own code still says of each known model what was recorded, and what our geometry computes.

`tests/unit/test_geometry.py` holds the geometry against the record; here the record is made again.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from components.hardware.known_models import known_model, known_models
from tools.cache import cache
from tools.localcluster.vllm.environment import python_of_vllm

HERE = Path(__file__).resolve().parent
RECORD = HERE.parent / "data/vllm-0.32-kv-cache.jsonl"


def test_vllm_states_the_kv_cache_of_every_model_as_recorded(tmp_path: Path) -> None:
    for name in known_models():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(known_model(name)))
    site = cache().layout().vllm
    done = subprocess.run(
        [python_of_vllm(), HERE / "vllm_geometry.py", "--tp", "1", "--tp", "8", *sorted(tmp_path.iterdir())],
        capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    said = [json.loads(line) for line in done.stdout.splitlines()]
    recorded = [json.loads(line) for line in RECORD.read_text().splitlines()]
    assert len(said) == 2 * len(known_models()), done.stderr[-2000:]
    by_key = {(row["model"], row["tp"]): row for row in recorded}
    for row in said:
        expected = by_key[row["model"], row["tp"]]
        assert (row["error"] is None) == (expected["error"] is None), row
        for fact in ("layers", "groups", "kv_bytes_per_token_full", "state_bytes"):
            assert row.get(fact) == expected.get(fact), (row["model"], row["tp"], fact)
