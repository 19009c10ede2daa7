"""Expected times agree with what was measured, and say what they rest on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.hardware.catalogue import instance
from components.hardware.expected import expected, transfer_ms
from components.hardware.known_models import known_model
from components.hardware.links import PROFILES, efa_link
from components.hardware.read_geometry import read_geometry

QWEN = read_geometry(known_model("qwen2.5-7b"))
LLAMA = read_geometry(known_model("llama-3.1-70b"))
NVLINK = PROFILES["nvlink"]

# block size, prompt, pieces, milliseconds: docs/measurements/nvlink-h200.md, the rows at a steady state
STEADY = [
    (16, 8192, 28, 2.5), (16, 2048, 3584, 12.2), (16, 8192, 11704, 44), (16, 16384, 24108, 92),
    (128, 8192, 1652, 8.0), (128, 16384, 3248, 14.2),
]  # fmt: skip


@pytest.mark.parametrize(("block_size", "tokens", "pieces", "measured_ms"), STEADY)
def test_nvlink_is_within_fifteen_percent_of_what_was_measured(
    block_size: int, tokens: int, pieces: int, measured_ms: float
) -> None:
    moved = QWEN.transfer(tokens, block_size, "bfloat16").rank_bytes
    assert transfer_ms(NVLINK, moved, pieces) == pytest.approx(measured_ms, rel=0.15)


@pytest.mark.parametrize(("tokens", "measured_ms"), [(2048, 318), (8192, 1320)])
def test_tcp_between_gpus_is_the_article_s_slow_box(tokens: int, measured_ms: float) -> None:
    assert expected(QWEN, PROFILES["tcp"], tokens, 16, "bfloat16").fresh_ms == pytest.approx(measured_ms, rel=0.05)


@pytest.mark.parametrize(
    ("model", "at_400_gbit", "on_p4d"),
    [("qwen2.5-7b", 9.4, 75), ("qwen3-0.6b", 19, 150), ("llama-3.1-70b", 54, 429), ("deepseek-v3", 11.5, 92)],
)
def test_line_rates_are_those_of_the_published_table(model: str, at_400_gbit: float, on_p4d: float) -> None:
    moved = read_geometry(known_model(model)).transfer(8192, 16, "bfloat16").rank_bytes
    assert moved / (PROFILES["ib-ndr"].effective_gb_per_s * 1e6) == pytest.approx(at_400_gbit, rel=0.03)
    p4d = efa_link(instance("p4d.24xlarge"), "LIBFABRIC")
    assert moved / (p4d.effective_gb_per_s * 1e6) == pytest.approx(on_p4d, rel=0.01)


def test_ucx_on_efa_is_software_emulation() -> None:
    slow = efa_link(instance("p5.48xlarge"), "UCX")
    assert expected(LLAMA, slow, 8192, 128, "bfloat16", 8).fresh_ms > 1000


def test_what_was_not_measured_is_named() -> None:
    assert NVLINK.unmeasured == ()
    assert PROFILES["ib-ndr"].unmeasured == ("efficiency", "base", "cost per descriptor")
    assert all(link.rate_source for link in PROFILES.values())


@given(st.sampled_from(sorted(PROFILES)), st.integers(1, 10**6), st.sampled_from([16, 32, 64, 128]))
def test_an_aged_cache_is_never_faster_and_larger_blocks_never_slower(name: str, tokens: int, block: int) -> None:
    small = expected(LLAMA, PROFILES[name], tokens * 256, block, "bfloat16", 8)
    large = expected(LLAMA, PROFILES[name], tokens * 256, block * 2, "bfloat16", 8)
    assert small.fresh_ms <= small.aged_ms
    assert large.aged_ms <= small.aged_ms


@given(st.integers(1, 10**5), st.sampled_from([1, 2, 4]))
def test_more_ranks_never_take_longer(tokens: int, tp: int) -> None:
    times = [expected(LLAMA, PROFILES["ib-hdr"], tokens, 128, "bfloat16", ranks).aged_ms for ranks in (tp, tp * 2)]
    assert times[1] <= times[0]
