"""The probe's question whether embeddings move, and what the gate makes of the answers."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import zlib
from typing import Any

import pytest

from components.hardware.geometry import Geometry, Stated
from components.release import probe
from components.release.cluster import Pod
from components.release.evidence import Evidence
from components.release.measure import ProbeSettings, probe_plan
from components.release.release import Expectation
from components.release.verdict import Limits, judge

LIMITS = Limits(100, Geometry((Stated(1, 1),), 512, 0), 16, collocated=True, encoder=True)
PLAN: dict[str, Any] = {
    "embeddings": [[{"name": "encoder-0", "url": "http://e"}, {"name": "collocated-0", "url": "http://c"}]],
    "render": [{"name": "render-0", "url": "http://r"}], "router": "http://g", "reference": "http://c", "model": "m",
    "answer_tokens": 4,
}  # fmt: skip


def answer_to(content: str) -> list[int]:
    """An answer that depends on all that was seen."""
    return list(hashlib.sha256(content.encode()).digest()[:4])


class Tiers:
    """Render, encoder, engine and gateway that speak the token protocol. `loads`: the engine takes embeddings;
    `blind`: it answers alike whatever is shown; `damages`: what it loads is another's."""

    def __init__(self, *, loads: bool = True, blind: bool = False, damages: bool = False, routes: bool = True,
                 silent: bool = False, shows: bool = True) -> None:  # fmt: skip
        self.loads, self.blind, self.damages, self.routes, self.silent, self.shows = (
            loads, blind, damages, routes, silent, shows)  # fmt: skip
        self.embeddings: dict[str, str] = {}
        self.encoded = 0

    def get(self, url: str) -> str:
        assert url == "http://e/metrics"
        return f'vllm:request_success_total{{finished_reason="stop"}} {self.encoded}\n'

    def post(self, url: str, body: Any, _: Any = None) -> Any:
        host, _, path = url.removeprefix("http://").partition("/")
        if path.endswith("/render"):
            return self._render(body)
        if host == "e":
            return self._encode(body)
        if path == "inference/v1/generate":
            return {"choices": [{"token_ids": self._generate(body)}]}
        self.encoded += host == "g" and self.routes
        content = self._image(body)
        text = "same" if self.blind else str(answer_to(content))
        return {"choices": [{"message": {"content": text}}], "usage": {"prompt_tokens": 9}}

    def _image(self, body: Any) -> str:
        return body["messages"][0]["content"][0]["image_url"]["url"]

    def _render(self, body: Any) -> Any:
        if not self.shows:
            raise probe.CannotMeasure("http://r answered 400: At most 0 image(s) may be provided")
        url = self._image(body)
        return {
            "token_ids": [1, 7, 7, 2],
            "features": {
                "mm_hashes": {"image": ["content"]}, "mm_placeholders": {"image": [{"offset": 1, "length": 2}]},
                "kwargs_data": {"image": [url]}, "mm_metadata": {"image": ["grid"]},
            },
        }  # fmt: skip

    def _encode(self, body: Any) -> Any:
        assert body["token_ids"] == [7, 7] and body["features"]["mm_placeholders"]["image"][0]["offset"] == 0
        (name,), (pixels,) = body["features"]["mm_hashes"]["image"], body["features"]["kwargs_data"]["image"]
        self.encoded += 1
        self.embeddings[name] = pixels
        return {"ec_transfer_params": None if self.silent else {name: {}}}

    def _generate(self, body: Any) -> list[int]:
        (name,), (pixels,) = body["features"]["mm_hashes"]["image"], body["features"]["kwargs_data"]["image"]
        moved = self.loads and name in self.embeddings
        seen = (self.embeddings[name] + self.damages * "?") if moved else pixels
        return [0] if self.blind else answer_to(seen)


def judged(tiers: Tiers, plan: dict[str, Any] = PLAN, **more: Any) -> Any:
    found = json.loads(json.dumps(probe.check_encoder(tiers, plan) | more))
    return judge(Evidence(encoder=found, router={"error": None}), LIMITS)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "SETTLE_LIMIT_S", 0.05)


def test_embeddings_that_move_pass() -> None:
    verdict = judged(Tiers())
    assert (verdict.outcome, verdict.cause) == ("pass", "collocated")


@pytest.mark.parametrize(
    ("tiers", "outcome", "cause", "words"),
    [
        (Tiers(loads=False), "fail", "encoder-never-used", "encoder-0 -> collocated-0: 3 of 3 images were encoded"),
        (Tiers(damages=True), "fail", "encoder-differs", "3 of 3 answers to a moved embedding differ"),
        (Tiers(blind=True), "inconclusive", "encoder-blind", "answers alike whatever the image shows"),
        (Tiers(routes=False), "fail", "encoder-not-routed", "3 images went through the gateway, the encoders counted 0"),
        (Tiers(silent=True), "fail", "encoder-failed", "named no embedding"),
        (Tiers(shows=False), "inconclusive", "encoder-unmeasured", "At most 0 image(s)"),
    ],
)  # fmt: skip
def test_everything_else_is_no_pass(tiers: Tiers, outcome: str, cause: str, words: str) -> None:
    verdict = judged(tiers)
    assert (verdict.outcome, verdict.cause) == (outcome, cause)
    assert words in verdict.message and verdict.fix


def test_other_answers_through_the_gateway_fail() -> None:
    other = [{"router": "x", "engine": "y"}] * 3
    assert judged(Tiers(), answers=other).cause == "encoder-differs"
    assert judged(Tiers(), answers=[]).cause == "encoder-failed"
    assert judged(Tiers(), router_error="http://g answered 502").message.endswith("http://g answered 502")


@pytest.mark.parametrize(
    "record", [None, {"pairs": [], "answers": [], "encoded": 0, "error": None, "router_error": None}]
)
def test_a_tier_that_was_not_asked_is_never_a_pass(record: Any) -> None:
    verdict = judge(Evidence(encoder=record, router={"error": None}), LIMITS)
    assert (verdict.outcome, verdict.cause) == ("inconclusive", "encoder-not-asked")


def test_the_picture_is_a_png_of_fresh_colours() -> None:
    first, second = probe.picture(16), probe.picture(16)
    assert first != second
    raw = base64.b64decode(first.removeprefix("data:image/png;base64,"))
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(raw):
        (length,) = struct.unpack(">I", raw[at : at + 4])
        kind, content = raw[at + 4 : at + 8], raw[at + 8 : at + 8 + length]
        assert struct.unpack(">I", raw[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + content)
        chunks[kind], at = content, at + 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"] and struct.unpack(">II", chunks[b"IHDR"][:8]) == (16, 16)
    assert len(zlib.decompress(chunks[b"IDAT"])) == 16 * (1 + 3 * 16)


def test_every_encoder_and_every_engine_that_loads_is_paired() -> None:
    pods = [Pod(name=f"{tier}-{n}", tier=tier, ip=f"10.0.0.{n}", ready=True, trouble=None, state="")
            for tier, count in (("encoder", 3), ("prefill", 2), ("decode", 1), ("render", 1), ("router", 1))
            for n in range(count)]  # fmt: skip
    expectation = Expectation("prefill-decode", "m", 8000, 8080, 16, 2048, 512, "bfloat16", 1, [], render_port=8001,
                              encoder="nixl")  # fmt: skip
    plan = probe_plan(pods, expectation, ProbeSettings(1, 64, 4, "off", 1, 1))
    names = [(encoder["name"], engine["name"]) for encoder, engine in plan["embeddings"]]
    assert {one for one, _ in names} == {"encoder-0", "encoder-1", "encoder-2"}
    assert {one for _, one in names} == {"prefill-0", "prefill-1"}
    assert plan["embeddings"][0][0]["url"] == "http://10.0.0.0:8000"
