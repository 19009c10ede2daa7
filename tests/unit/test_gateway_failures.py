"""What becomes of a request when a tier refuses, breaks or hangs, or when its client leaves."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import aiohttp
import openai
import pytest

from tests.unit.fake_gateway_stand import CHAT, Stand, of_generate, on_a_stand, until


def no_address(text: str) -> bool:
    return not re.search(r"127\.0\.0\.1|10\.\d|http://|\.svc", text)


@on_a_stand(engine={"without_kv": True})
async def test_a_prefill_answer_without_kv_is_an_error_and_decode_is_not_asked(s: Stand) -> None:
    status, answer = await s.chat()
    assert (status, answer["error"]["type"], answer["error"]["code"]) == (502, "BadGatewayError", 502)
    assert of_generate(s.decode) == []
    assert await s.metric("prefill_answers_without_kv_params_total") == 1


@on_a_stand(engine={"without_kv": True}, allow_local_prefill=True)
async def test_a_prefill_answer_without_kv_may_be_allowed_and_is_counted_still(s: Stand) -> None:
    status, _ = await s.chat()
    assert status == 200 and s.cluster.local_prefills == 1
    assert await s.metric("prefill_answers_without_kv_params_total") == 1


@on_a_stand()
async def test_render_s_refusals_are_the_client_s_to_read(s: Stand) -> None:
    client = s.client()
    with pytest.raises(openai.BadRequestError, match=r"Input length \(5000\) exceeds"):
        await client.completions.create(model="fake", prompt="x" * 5000)
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        await client.completions.create(model="other", prompt="x")
    assert of_generate(s.prefill) == []


@pytest.mark.parametrize(
    ("status", "seen", "message"),
    [
        (400, 400, "bad <address>"),
        (500, 500, "bad <address>"),
        (401, 502, "the decode tier refused the gateway's call (status 401)"),
        (403, 502, "the decode tier refused the gateway's call (status 403)"),
        (404, 502, "the decode tier refused the gateway's call (status 404)"),
    ],
)
@on_a_stand()
async def test_an_engine_s_error_is_passed_on_without_its_address(
    s: Stand, status: int, seen: int, message: str
) -> None:
    s.decode[0].status, s.decode[0].message = status, "bad http://10.0.0.7:8000/x"
    got, answer = await s.chat()
    assert (got, answer["error"]["code"], answer["error"]["message"]) == (seen, seen, message)


@on_a_stand(prefills=2)
async def test_a_prefill_pod_that_drains_is_replaced_by_another(s: Stand) -> None:
    s.prefill[0].status = 503
    for _ in range(4):
        assert (await s.chat())[0] == 200
    assert len(of_generate(s.prefill[:1])) <= 1, "it is passed over for a while"


@on_a_stand()
async def test_a_busy_engine_is_503_with_retry_after(s: Stand) -> None:
    s.decode[0].status = 503
    async with s.post("/v1/chat/completions", CHAT) as response:
        assert response.status == 503 and int(response.headers["Retry-After"]) >= 1
        assert (await response.json())["error"]["type"] == "BadRequestError"


@pytest.mark.parametrize("stream", [False, True])
@on_a_stand(decodes=2)
async def test_a_decode_pod_that_is_gone_is_replaced_and_prefill_is_asked_once(s: Stand, stream: bool) -> None:
    await s.shut(s.decode[0])
    failures = 'upstream_failures_total{kind="connect",tier="decode"}'
    asked = 0
    while asked < 40 and (asked < 4 or not await s.metric(failures)):
        async with s.post("/v1/chat/completions", CHAT | {"stream": stream}) as response:
            assert response.status == 200 and "error" not in await response.text()
        asked += 1
    assert len(of_generate(s.prefill)) == asked
    assert s.cluster.local_prefills == 0
    assert await s.metric(failures) == 1
    assert await s.metric('healthy_pods{tier="decode"}') == 1


@on_a_stand(decodes=2)
async def test_a_decode_that_took_nothing_is_started_again_from_prefill(s: Stand) -> None:
    s.decode[0].status = 503
    for _ in range(40):
        assert (await s.chat())[0] == 200
        if of_generate(s.decode[:1]):
            break
    assert len(of_generate(s.decode[:1])) == 1
    assert len(of_generate(s.prefill)) == len(of_generate(s.decode)), "each attempt had KV of its own"
    assert s.cluster.local_prefills == 0
    assert await s.metric("restarts_total") == 1


@on_a_stand(decodes=2)
async def test_what_decode_has_taken_is_not_sent_twice(s: Stand) -> None:
    for engine in s.decode:
        engine.die_after = 0
    status, answer = await s.chat()
    assert status == 502 and no_address(str(answer))
    assert (len(of_generate(s.prefill)), len(of_generate(s.decode))) == (1, 1)
    assert await s.metric('upstream_failures_total{kind="broken",tier="decode"}') == 1


@on_a_stand(engine={"token_s": 0.01})
async def test_an_engine_that_dies_mid_stream_ends_it_with_an_error_and_without_done(s: Stand) -> None:
    s.decode[0].die_after = 3
    events = await s.events("/v1/chat/completions", CHAT)
    assert events[-1]["error"]["code"] == 502 and no_address(str(events[-1]))
    assert "[DONE]" not in events
    shown = "".join(c["delta"].get("content") or "" for e in events[:-1] for c in e["choices"])
    assert shown == "hel"
    assert await s.metric('requests_total{route="/v1/chat/completions",status="502"}') == 1


@on_a_stand(engine={"token_s": 0.01})
async def test_the_openai_package_raises_on_a_stream_that_broke_off(s: Stand) -> None:
    s.decode[0].die_after = 3
    stream = await s.client().chat.completions.create(
        model="fake", messages=[{"role": "user", "content": "x"}], stream=True
    )
    with pytest.raises(openai.APIError, match="broke"):
        async for _ in stream:
            pass


@on_a_stand(engine={"token_s": 0.01})
async def test_an_error_event_of_the_engine_is_passed_on_without_the_done_that_follows(s: Stand) -> None:
    s.decode[0].error_after = 2
    events = await s.events("/v1/chat/completions", CHAT)
    assert events[-1]["error"]["message"] == "Internal error at <address>"
    assert "[DONE]" not in events


@on_a_stand()
async def test_a_stream_that_names_no_finish_reason_is_not_passed_off_as_whole(s: Stand) -> None:
    s.decode[0].unfinished = True
    events = await s.events("/v1/chat/completions", CHAT)
    assert events[-1]["error"]["code"] == 502


@pytest.mark.parametrize(("way", "status"), [("error_after", 500), ("die_after", 502)])
@on_a_stand()
async def test_a_failure_before_the_first_token_is_an_http_status(s: Stand, way: str, status: int) -> None:
    setattr(s.decode[0], way, 0)
    got, answer = await s.chat(stream=True)
    assert (got, answer["error"]["code"]) == (status, status)


@on_a_stand(prefill_limit_s=0.1)
async def test_a_prefill_that_hangs_is_504_and_let_go(s: Stand) -> None:
    s.prefill[0].delay_s = 5
    status, answer = await s.chat()
    assert (status, answer["error"]["message"]) == (504, "the prefill tier took too long")
    await until(lambda: s.prefill[0].aborted == 1)
    assert of_generate(s.decode) == []


@on_a_stand(first_byte_limit_s=0.15, engine={"token_s": 0.0})
async def test_a_decode_without_a_first_token_in_time_is_504(s: Stand) -> None:
    s.decode[0].delay_s = 5
    assert (await s.chat(stream=True))[0] == 504


@on_a_stand(stall_limit_s=0.1)
async def test_a_stream_that_stalls_is_ended_with_an_error(s: Stand) -> None:
    s.decode[0].token_s = 5
    events = await s.events("/v1/chat/completions", CHAT)
    assert events[-1]["error"]["code"] == 504
    await until(lambda: s.decode[0].aborted == 1)


@on_a_stand(request_limit_s=0.2)
async def test_a_request_over_its_whole_limit_is_504(s: Stand) -> None:
    s.decode[0].delay_s = 5
    assert (await s.chat())[0] == 504
    await until(lambda: s.decode[0].aborted == 1)


async def leave(s: Stand, body: dict[str, Any], when: Any) -> None:
    """A client that asks and hangs up once `when` holds."""
    async with aiohttp.ClientSession(trust_env=False) as session:
        asking = asyncio.create_task(session.post(s.url + "/v1/chat/completions", json=CHAT | body))
        await until(when)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


@on_a_stand()
async def test_a_client_that_leaves_during_prefill_ends_it_and_decode_is_never_asked(s: Stand) -> None:
    s.prefill[0].delay_s = 5
    await leave(s, {}, lambda: bool(of_generate(s.prefill)))
    await until(lambda: s.prefill[0].aborted == 1)
    await asyncio.sleep(0.05)
    assert of_generate(s.decode) == []
    assert await s.metric("in_flight_requests") == 0
    assert await s.metric("client_disconnects_total") == 1


@pytest.mark.parametrize("body", [{}, {"n": 3}, {"stream": True}])
@on_a_stand()
async def test_a_client_that_leaves_during_decode_ends_every_decode(s: Stand, body: dict[str, Any]) -> None:
    s.decode[0].delay_s = 5
    most = body.get("n", 1)
    await leave(s, body, lambda: len(of_generate(s.decode)) == most)
    await until(lambda: s.decode[0].aborted == most)


@on_a_stand(engine={"token_s": 0.05, "reply": "x" * 200})
async def test_a_client_that_leaves_mid_stream_ends_decode(s: Stand) -> None:
    async with s.post("/v1/chat/completions", CHAT | {"stream": True}) as response:
        await response.content.readany()
        response.close()
    await until(lambda: s.decode[0].aborted == 1)
    assert await s.metric("in_flight_requests") == 0


@on_a_stand(engine={"push": True}, dispatch="concurrent")
async def test_with_concurrent_dispatch_a_failed_prefill_ends_decode(s: Stand) -> None:
    await s.chat()
    s.prefill[0].status, s.prefill[0].delay_s = 500, 0.1
    assert (await s.chat())[0] == 500
    await until(lambda: s.decode[0].aborted == 1)


@on_a_stand(engine={"push": True}, dispatch="concurrent")
async def test_with_concurrent_dispatch_a_failed_decode_ends_prefill(s: Stand) -> None:
    await s.chat()
    s.prefill[0].delay_s, s.decode[0].status = 5, 500
    assert (await s.chat())[0] == 500
    await until(lambda: s.prefill[0].aborted == 1)


@on_a_stand(renders=2)
async def test_a_render_pod_that_is_gone_is_replaced_also_mid_stream(s: Stand) -> None:
    s.decode[0].token_s = 0.02
    asking = asyncio.create_task(s.events("/v1/chat/completions", CHAT))
    await until(lambda: any(seen.path.endswith("/derender") for one in s.render for seen in one.seen))
    await s.shut(s.render[0])
    assert (await asking)[-1] == "[DONE]"


@on_a_stand(engine={"token_s": 0.05}, drain_notice_s=0.2, drain_s=3.0)
async def test_a_drain_is_not_ready_at_once_refuses_new_requests_and_ends_those_in_flight(s: Stand) -> None:
    asking = asyncio.create_task(s.events("/v1/chat/completions", CHAT))
    await until(lambda: len(of_generate(s.decode)) == 1)
    s.stop.set()
    await asyncio.sleep(0.05)
    async with s.session.get(s.url + "/health") as response:
        assert response.status == 503
    async with s.session.get(s.url + "/liveness") as response:
        assert response.status == 200
    assert (await asking)[-1] == "[DONE]"
    await asyncio.wait_for(asyncio.shield(s.serving), 20)
    with pytest.raises(aiohttp.ClientConnectorError):
        await s.chat()


@on_a_stand(drain_s=0.3)
async def test_a_drain_does_not_wait_longer_than_its_limit(s: Stand) -> None:
    s.decode[0].delay_s = 10
    asking = asyncio.create_task(s.chat())
    await until(lambda: len(of_generate(s.decode)) == 1)
    s.stop.set()
    await asyncio.wait_for(asyncio.shield(s.serving), 8)
    await asyncio.gather(asking, return_exceptions=True)
    await until(lambda: s.decode[0].aborted == 1)
