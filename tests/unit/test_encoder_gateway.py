"""The gateway with an encoder tier: who is asked for what, under which names, and what failures become."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Any

import pytest

from components.gateway.embeddings import Embeddings
from components.gateway.encode import items_of
from components.gateway.pods import Pods
from components.gateway.settings import Settings, faults_of
from tests.unit.fake_gateway_stand import Stand, of_generate, on_a_stand, run, until
from tests.unit.fake_gateway_tiers import IMAGE_TOKENS, PLACEHOLDER

NAME = re.compile(r"[0-9a-f]{64}")


def asking(*images: str, **more: Any) -> dict[str, Any]:
    """A chat about images, each by its URL."""
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in images]
    return {"messages": [{"role": "user", "content": [*parts, {"type": "text", "text": "what?"}]}], **more}


def names(body: dict[str, Any]) -> list[str]:
    return [one for hashes in body["features"]["mm_hashes"].values() for one in hashes]


@on_a_stand(encoders=2, topology="collocated")
async def test_each_item_is_one_call_of_its_own_placeholders_before_the_engine_is_asked(s: Stand) -> None:
    status, answer = await s.chat(**asking("a", "b"))
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "hello")
    asked = [seen.body for seen in of_generate(s.encoder)]
    assert [len(one.seen) for one in s.encoder] == [1, 1], "the items are spread"
    assert {one["features"]["kwargs_data"]["image"][0] for one in asked} == {"a", "b"}
    assert all(one["token_ids"] == [PLACEHOLDER] * IMAGE_TOKENS for one in asked)
    assert all(one["features"]["mm_placeholders"]["image"] == [{"offset": 0, "length": IMAGE_TOKENS}] for one in asked)
    engine = of_generate(s.decode)[0].body
    assert set(engine["ec_transfer_params"]) == set(names(engine)) == {names(one)[0] for one in asked}
    assert engine["features"]["kwargs_data"]["image"] == ["a", "b"], "an engine may encode what does not arrive"
    assert await s.metric("encoded_items_total") == 2
    assert await s.metric('leg_seconds_count{leg="encode"}') == 1


@on_a_stand(encoders=1)
async def test_prefill_is_told_of_embeddings_and_decode_is_not(s: Stand) -> None:
    assert (await s.chat(**asking("a")))[0] == 200
    prefill, decode = of_generate(s.prefill)[0].body, of_generate(s.decode)[0].body
    assert set(prefill["ec_transfer_params"]) == set(names(prefill)) == set(names(decode))
    assert decode["ec_transfer_params"] is None
    assert s.cluster.transfers == 1


@on_a_stand(encoders=1, topology="collocated")
async def test_text_goes_past_the_encoder(s: Stand) -> None:
    assert (await s.chat())[0] == 200 and (await s.completion())[0] == 200
    assert s.encoder[0].seen == []
    assert await s.metric("encoded_items_total") == 0


@on_a_stand(encoders=1, topology="collocated")
async def test_names_are_the_gateway_s_own(s: Stand) -> None:
    """A client's `uuid` would be a path of the shared folder, and another client's image."""
    body = asking("a", cache_salt="one")
    body["messages"][0]["content"][0]["uuid"] = "../../other"
    assert (await s.chat(**body))[0] == 200
    assert (await s.chat(**asking("a", cache_salt="two")))[0] == 200
    assert (await s.chat(**asking("a", cache_salt="two")))[0] == 200
    first, second, third = (names(seen.body)[0] for seen in of_generate(s.encoder))
    assert all(NAME.fullmatch(one) for one in (first, second, third))
    assert first != second == third
    assert "uuid" not in str(s.render[0].seen[0].body)


@on_a_stand(encoders=1, topology="collocated")
async def test_a_client_says_nothing_of_embeddings(s: Stand) -> None:
    assert (await s.chat(**asking("a", ec_transfer_params={"x": {"peer_host": "evil"}})))[0] == 200
    assert "evil" not in str(of_generate(s.decode)[0].body)
    assert await s.metric('stripped_params_total{param="ec_transfer_params"}') == 1


@on_a_stand(encoders=1)
async def test_several_answers_encode_an_image_once(s: Stand) -> None:
    status, answer = await s.chat(**asking("a", "a", n=3))
    assert (status, len(answer["choices"])) == (200, 3)
    assert len(s.encoder[0].seen) == 1


@on_a_stand(encoders=1, topology="collocated", embedding_reuse_s=0.4)
async def test_an_embedding_is_written_once_and_used_again_until_its_name_ends(s: Stand) -> None:
    for _ in range(3):
        assert (await s.chat(**asking("a")))[0] == 200
    assert len(s.encoder[0].seen) == 1 and await s.metric("reused_items_total") == 2
    engines = [seen.body for seen in of_generate(s.decode)]
    assert len({names(one)[0] for one in engines}) == 1 and all(one["ec_transfer_params"] for one in engines)
    await asyncio.sleep(0.5)
    assert (await s.chat(**asking("a")))[0] == 200
    assert len({names(seen.body)[0] for seen in of_generate(s.encoder)}) == 2, "under another name"


@on_a_stand(encoders=1, topology="collocated", embedding_reuse_s=60)
async def test_requests_for_the_same_image_at_once_share_its_encoding(s: Stand) -> None:
    s.encoder[0].delay_s = 0.2
    answers = await asyncio.gather(*(s.chat(**asking("a")) for _ in range(5)))
    assert [status for status, _ in answers] == [200] * 5 and len(s.encoder[0].seen) == 1


@on_a_stand(encoders=1, topology="collocated", embedding_reuse_s=60)
async def test_what_failed_is_encoded_again_under_another_name(s: Stand) -> None:
    s.encoder[0].status, s.encoder[0].message = 500, "out of memory at 10.0.0.7:8000"
    status, answer = await s.chat(**asking("a"))
    assert (status, answer["error"]["code"]) == (500, 500)
    assert answer["error"]["message"] == "out of memory at <address>"
    s.encoder[0].status = 200
    assert (await s.chat(**asking("a")))[0] == 200
    first, second = (names(seen.body)[0] for seen in of_generate(s.encoder))
    assert first != second


@on_a_stand(encoders=2, topology="collocated")
async def test_a_dead_or_draining_encoder_is_replaced_by_another(s: Stand) -> None:
    await s.shut(s.encoder[0])
    for number in range(4):
        assert (await s.chat(**asking(f"a{number}")))[0] == 200
    assert len(s.encoder[1].seen) == 4
    s.encoder[1].status = 503
    async with s.post("/v1/chat/completions", {"model": "fake", **asking("b")}) as response:
        assert response.status == 503 and int(response.headers["Retry-After"]) >= 1
        assert (await response.json())["error"]["code"] == 503
    assert [len(names(seen.body)) for seen in of_generate(s.decode)] == [1] * 4, "no engine saw the fifth"


@on_a_stand(encoders=2, topology="collocated", encode_limit_s=0.2)
async def test_a_slow_encoder_is_a_timeout_and_its_calls_end(s: Stand) -> None:
    for one in s.encoder:
        one.delay_s = 5
    status, answer = await s.chat(**asking("a", "b"))
    assert (status, answer["error"]["type"]) == (504, "GatewayTimeoutError")
    assert answer["error"]["message"] == "the encoder tier took too long"
    await until(lambda: sum(one.aborted for one in s.encoder) == 2)
    assert of_generate(s.decode) == []


@on_a_stand(encoders=1, topology="collocated")
async def test_an_encoder_without_a_connector_is_an_error(s: Stand) -> None:
    s.encoder[0].silent = True
    status, answer = await s.chat(**asking("a"))
    assert (status, answer["error"]["type"]) == (502, "BadGatewayError")
    assert of_generate(s.decode) == []
    assert await s.metric("encoder_answers_without_embedding_total") == 1


@pytest.mark.parametrize("reuse_s", [0, 60])
def test_a_client_that_leaves_ends_its_encoding_and_no_other_s(reuse_s: float) -> None:
    @on_a_stand(encoders=1, topology="collocated", embedding_reuse_s=reuse_s)
    async def leaves(s: Stand) -> None:
        s.encoder[0].delay_s = 0.6
        stays = asyncio.create_task(s.chat(**asking("a")))
        goes = asyncio.create_task(s.chat(**asking("a")))
        alone = asyncio.create_task(s.chat(**asking("b")))
        await until(lambda: len(s.encoder[0].seen) == (2 if reuse_s else 3))
        for one in (goes, alone):
            one.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await one
        await until(lambda: s.encoder[0].aborted == (1 if reuse_s else 2), 0.5)
        assert (await stays)[0] == 200

    leaves()


def test_without_encoders_text_is_served_and_an_image_is_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Pods] = []

    def kept(*tiers: Any, **chosen: Any) -> Pods:
        made.append(Pods(*tiers, **chosen))
        return made[-1]

    monkeypatch.setattr("components.gateway.main.Pods", kept)

    @on_a_stand(encoders=1, topology="collocated")
    async def asked(s: Stand) -> None:
        made[0].put("encoder", {})
        async with s.session.get(s.url + "/health") as response:
            assert response.status == 200
        assert (await s.chat())[0] == 200
        status, answer = await s.chat(**asking("a"))
        assert (status, answer["error"]["message"]) == (503, "no encoder pod is ready")

    asked()


@on_a_stand(encoders=1, topology="collocated", body_memory_bytes=4000)
async def test_rendered_images_count_as_memory_until_their_request_ends(s: Stand) -> None:
    """A megapixel is a PNG of some 100 kB and 30 MB of numbers."""
    status, answer = await s.chat(**asking("a" * 3000))
    assert (status, answer["error"]["type"]) == (429, "RateLimitError")
    assert s.encoder[0].seen == []
    assert (await s.chat(**asking("a" * 100)))[0] == 200
    assert await s.metric("held_body_bytes") == 0


def test_flags_of_an_encoder_tier() -> None:
    assert Settings(encoder_tier="yes").tiers == ("render", "encoder", "prefill", "decode")
    assert Settings(encoder_tier="yes", topology="collocated").engine_tier == "collocated"
    assert "--encoder: not a tier of --topology collocated" in faults_of(
        Settings(topology="collocated", release="r", encoder=("http://x",))
    )
    assert faults_of(Settings(release="r", embedding_reuse_s=-1)) == ["--embedding-reuse-s: found -1, wanted 0 or more"]


def test_an_item_keeps_its_metadata_and_its_modality() -> None:
    request = {
        "request_id": "r", "model": "m", "token_ids": [1, 2, 2, 3, 4, 4, 4],
        "features": {
            "mm_hashes": {"image": ["i"], "audio": ["s"]},
            "mm_placeholders": {"image": [{"offset": 1, "length": 2}], "audio": [{"offset": 4, "length": 3}]},
            "kwargs_data": {"image": ["pixels"], "audio": ["samples"]},
            "mm_metadata": {"image": ["grid"]},
        },
    }  # fmt: skip
    image, sound = (body for _, body in items_of(request))
    assert (image["token_ids"], sound["token_ids"]) == ([2, 2], [4, 4, 4])
    assert image["features"]["mm_metadata"] == {"image": ["grid"]} and "mm_metadata" not in sound["features"]
    assert sound["features"]["kwargs_data"] == {"audio": ["samples"]}


def test_remembered_names_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("components.gateway.embeddings.MOST", 10)

    async def many() -> None:
        embeddings = Embeddings(60)
        for number in range(100):
            embeddings.leave(embeddings.take("", str(number)))
        assert len(vars(embeddings)["_items"]) <= 10

    run(many)
