"""Dispatch for Mooncake: both legs at once, by a transfer id, with what the prefiller's bootstrap server says."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.fake_gateway_stand import CHAT, Stand, of_generate, on_a_stand, until

MOONCAKE = {"mooncake": True, "token_s": 0.002}


@pytest.mark.parametrize("streamed", [False, True])
@on_a_stand(engine=MOONCAKE, dispatch="bootstrap")
async def test_decode_loads_what_prefill_keeps_by_one_unguessable_id(s: Stand, streamed: bool) -> None:
    for _ in range(3):
        if streamed:
            assert (await s.events("/v1/chat/completions", CHAT))[-1] == "[DONE]"
        else:
            assert (await s.chat())[1]["choices"][0]["message"]["content"] == "hello"
    assert (s.cluster.transfers, s.cluster.local_prefills) == (3, 0)
    asked = [seen.body["kv_transfer_params"] for seen in of_generate(s.prefill)]
    told = [seen.body["kv_transfer_params"] for seen in of_generate(s.decode)]
    names = {params["transfer_id"] for params in asked}
    assert names == {params["transfer_id"] for params in told}
    assert len(names) == 3 and all(len(name) > 64 for name in names)
    assert all(params["do_remote_decode"] and not params["do_remote_prefill"] for params in asked)
    assert all(params["remote_bootstrap_addr"] == s.urls[id(s.prefill[0])] for params in told)


@on_a_stand(engine=MOONCAKE, dispatch="bootstrap")
async def test_decode_is_asked_before_prefill_has_answered(s: Stand) -> None:
    s.prefill[0].delay_s = 1.0
    waiting = asyncio.create_task(s.chat())
    await until(lambda: len(of_generate(s.decode)) == 1)
    assert not waiting.done()
    assert (await waiting)[0] == 200


@on_a_stand(engine=MOONCAKE, dispatch="bootstrap")
async def test_an_engine_that_restarted_is_named_anew_in_the_next_request(s: Stand) -> None:
    await s.chat()
    s.prefill[0].engine_id = "another"
    assert (await s.chat())[0] == 200
    told = [seen.body["kv_transfer_params"]["remote_engine_id"] for seen in of_generate(s.decode)]
    assert told[0] != told[1] == "another"


@on_a_stand(engine=MOONCAKE | {"registered": False}, dispatch="bootstrap")
async def test_a_prefiller_that_names_no_engine_is_not_asked_and_decode_neither(s: Stand) -> None:
    """Decode would answer 200 and compute the prompt itself."""
    status, answer = await s.chat()
    assert (status, answer["error"]["message"]) == (503, "the prefill engine's bootstrap server names no engine")
    assert of_generate(s.prefill) == of_generate(s.decode) == []
    assert await s.metric('upstream_failures_total{kind="bootstrap",tier="prefill"}') == 2
    s.prefill[0].registered = True
    assert (await s.chat())[0] == 200


@on_a_stand(engine=MOONCAKE, dispatch="bootstrap")
async def test_a_failed_prefill_ends_decode(s: Stand) -> None:
    s.prefill[0].status = 500
    assert (await s.chat())[0] == 500
    await until(lambda: s.decode[0].aborted == 1)
