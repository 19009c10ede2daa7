"""vLLM's own code still makes the series that were recorded of it, with the labels that rules select by."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.unit.exported_series import PAGES, labels_of_page, series_of_page
from tools.cache import cache
from tools.localcluster.vllm.environment import python_of_vllm

HERE = Path(__file__).resolve().parent
RECORDED = {
    "NixlConnector": "vllm-0.32-every-series.prom",
    "MooncakeStoreConnector": "vllm-0.32-mooncake-store.prom",
}
PUSHING = "kv_producer=NixlPushConnector"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """By role and connector, the page that vLLM makes; in one process, which takes most of a minute to begin."""
    asked = [*(f"kv_consumer={connector}" for connector in RECORDED), PUSHING]
    done = subprocess.run(
        [python_of_vllm(), HERE / "vllm_metrics.py", *asked], capture_output=True, text=True,
        cwd=tmp_path_factory.mktemp("vllm"),
        env={**os.environ, "PYTHONPATH": str(cache().layout().vllm), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip(asked, done.stdout.split("# EOF\n"), strict=False))


def recorded(connector: str) -> str:
    return next(page for page in PAGES if page.name == RECORDED[connector]).read_text()


@pytest.mark.parametrize("connector", RECORDED)
def test_a_decoder_has_every_series_that_was_recorded(connector: str, pages: dict[str, str]) -> None:
    there = pages[f"kv_consumer={connector}"]
    assert series_of_page(recorded(connector)) - series_of_page(there) == set()
    labels = labels_of_page(there)
    for series, wanted in labels_of_page(recorded(connector)).items():
        for label, values in wanted.items():
            assert values <= labels[series].get(label, set()), (series, label)


def test_a_prefiller_counts_pushes_and_failures_under_the_same_names(pages: dict[str, str]) -> None:
    there = series_of_page(pages[PUSHING])
    transfers = {name for name in series_of_page(recorded("NixlConnector")) if name.startswith("vllm:nixl_")}
    assert transfers and transfers <= there
