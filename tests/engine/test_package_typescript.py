"""The package in TypeScript: the SDK and a program against it, by the real compiler, npm and engine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.engine.packaged import BYTES_PER_TOKEN, NODE, TSC, Packaged
from tests.engine.paper_cluster import paper_cluster
from tools.cache import CHECKOUT, cache
from tools.local import full_environment
from tools.own_engine import backend_url

EXAMPLE = CHECKOUT / "examples/package-typescript"


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Packaged:
    folder = tmp_path_factory.mktemp("typescript")
    found = {**os.environ, **full_environment(cache()), "PULUMI_BACKEND_URL": backend_url(folder)}
    made = Packaged.of(EXAMPLE, folder / "program", found | {"PATH": f"{NODE / 'bin'}:{found['PATH']}"})
    made.install_node()
    return made


def test_a_program_type_checks_against_the_generated_sdk(chat: Packaged) -> None:
    checked = chat.run(*TSC, "--noEmit")
    assert checked.code == 0, checked.text


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ('kind: "existing"', 'kind: "exists"', "TS2322"),
        ("limitMs: 100", 'limitMs: "100"', "TS2322"),
        ('age: "off"', "age: true", "TS2322"),
        ("gate: {", "gates: {", "TS2561"),
        ("served.live", "served.alive", "TS2551"),
    ],
)
def test_what_is_wrong_does_not_type_check(chat: Packaged, right: str, wrong: str, told: str) -> None:
    source = (EXAMPLE / "index.ts").read_text()
    assert right in source
    program = chat.folder / "index.ts"
    program.write_text(source.replace(right, wrong))
    checked = chat.run(*TSC, "--noEmit")
    program.write_text(source)
    assert checked.code != 0 and f"error {told}" in checked.text, checked.text


def test_the_program_deploys_and_a_slow_link_fails_it(chat: Packaged, tmp_path: Path) -> None:
    with paper_cluster(tmp_path) as (kubeconfig, node):
        node.bytes_per_token = BYTES_PER_TOKEN
        made = chat.up(kubeconfig=str(kubeconfig), model="chat")
        assert made.code == 0, made.text
        outputs = chat.outputs()
        assert outputs["release"] == node.probed[0] and outputs["kvTransferMs"] == node.transfer_ms
        node.transfer_ms = 300.0
        slow = chat.up(kubeconfig=str(kubeconfig), model="slow")
        assert slow.code != 0 and "was taken back: slow-link" in slow.text, slow.text
        assert "    at " not in slow.text, slow.text
        assert chat.outputs() == outputs
