"""What an OpenAI client gets through the gateway, against fake tiers of vLLM's shapes: the same as from vLLM.

`test_gateway_limits.py` holds what is refused, `test_gateway_failures.py` what happens when a tier fails.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.fake_gateway_stand import CHAT, COMPLETION, Stand, of_generate, on_a_stand, until
from tests.unit.fake_gateway_tiers import tokens_of


def contents(events: list[Any], index: int = 0, field: str = "content") -> str:
    choices = [c for e in events if isinstance(e, dict) for c in e["choices"] if c["index"] == index]
    return "".join(c["delta"].get(field) or "" if "delta" in c else c["text"] for c in choices)


@on_a_stand()
async def test_a_chat_answer_comes_through_prefill_and_decode_with_counts_of_the_engine(s: Stand) -> None:
    client = s.client()
    answer = await client.chat.completions.create(model="fake", messages=[{"role": "user", "content": "hi there"}])
    assert answer.choices[0].message.content == "hello"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.id.startswith("chatcmpl-")
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (8, 6, 14)
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 3, "prefill's: to decode all that came looks cached"
    assert (s.cluster.transfers, s.cluster.local_prefills) == (1, 0)
    assert "leak" not in answer.model_dump_json()


@on_a_stand()
async def test_prefill_is_asked_for_one_token_and_decode_for_the_client_s(s: Stand) -> None:
    await s.chat(max_tokens=300, min_tokens=4, seed=5, stop="zzz")
    (prefill,), (decode,) = of_generate(s.prefill), of_generate(s.decode)
    assert prefill.body["sampling_params"]["max_tokens"] == 1
    assert "min_tokens" not in prefill.body["sampling_params"]
    assert prefill.body["kv_transfer_params"] == {
        "do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None, "remote_block_ids": None,
        "remote_host": None, "remote_port": None,
    }  # fmt: skip
    assert decode.body["sampling_params"]["max_tokens"] == 300
    assert decode.body["sampling_params"]["min_tokens"] == 4
    assert decode.body["kv_transfer_params"]["remote_request_id"].startswith("generate-tokens-")
    assert prefill.body["token_ids"] == decode.body["token_ids"] == tokens_of("hi there")


@on_a_stand(engine={"reply": "x" * 100})
async def test_a_completion_without_max_tokens_ends_after_16_though_render_leaves_16_out(s: Stand) -> None:
    _, answer = await s.completion()
    assert answer["choices"][0]["text"] == "x" * 16
    assert answer["choices"][0]["finish_reason"] == "length"


@on_a_stand()
async def test_a_streamed_chat_answer_is_role_then_text_then_reason_then_usage(s: Stand) -> None:
    events = await s.events("/v1/chat/completions", CHAT | {"stream_options": {"include_usage": True}})
    assert events[-1] == "[DONE]"
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert contents(events) == "hello"
    reasons = [c["finish_reason"] for e in events[:-1] for c in e["choices"]]
    assert reasons[-1] == "stop" and set(reasons[:-1]) == {None}
    assert events[-2]["choices"] == []
    assert events[-2]["usage"]["completion_tokens"] == 6
    assert events[-2]["usage"]["prompt_tokens_details"] == {"cached_tokens": 3}
    assert len({(e["id"], e["created"], e["model"]) for e in events[:-1]}) == 1
    assert all("usage" not in e for e in events[:-2])


@on_a_stand()
async def test_continuous_usage_counts_up_with_each_chunk(s: Stand) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    events = await s.events("/v1/chat/completions", CHAT | {"stream_options": options})
    counts = [e["usage"]["completion_tokens"] for e in events[:-2]]
    assert counts[0] == 0 and counts[-1] == 6 and counts == sorted(counts)


@on_a_stand()
async def test_the_openai_package_reads_a_stream_to_its_end(s: Stand) -> None:
    client = s.client()
    stream = await client.chat.completions.create(
        model="fake", messages=[{"role": "user", "content": "hi"}], stream=True, n=2
    )
    texts = {0: "", 1: ""}
    async for chunk in stream:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == {0: "hello", 1: "hello"}


@pytest.mark.parametrize("streamed", [False, True])
@on_a_stand(engine={"reply": "seed {seed}"}, prefills=2)
async def test_each_of_n_choices_has_its_own_pair_of_legs_and_seed(s: Stand, streamed: bool) -> None:
    body = CHAT | {"n": 3, "seed": 7}
    if streamed:
        events = await s.events("/v1/chat/completions", body)
        texts = [contents(events, index) for index in range(3)]
    else:
        _, answer = await s.chat(n=3, seed=7)
        assert [c["index"] for c in answer["choices"]] == [0, 1, 2]
        assert answer["usage"] == answer["usage"] | {"prompt_tokens": 8, "completion_tokens": 21}
        texts = [c["message"]["content"] for c in answer["choices"]]
    assert texts == ["seed 7", "seed 8", "seed 9"]
    assert (s.cluster.transfers, s.cluster.local_prefills) == (3, 0), "no KV may serve two decodes"
    assert sorted(len(of_generate([one])) for one in s.prefill) == [0, 3], "the prompt is computed on one pod"
    names = [seen.headers["X-Request-Id"] for seen in of_generate(s.decode)]
    assert len(set(names)) == 3


@pytest.mark.parametrize("streamed", [False, True])
@on_a_stand(engine={"reply": "{index}!"}, topology="collocated")
async def test_collocated_engines_make_the_n_choices_themselves(s: Stand, streamed: bool) -> None:
    if streamed:
        events = await s.events("/v1/completions", COMPLETION | {"n": 2})
        texts = [contents(events, 0), contents(events, 1)]
    else:
        _, answer = await s.completion(n=2)
        texts = [c["text"] for c in answer["choices"]]
    assert texts == ["0!", "1!"]
    (seen,) = of_generate(s.decode)
    assert seen.body["sampling_params"]["n"] == 2
    assert seen.body["kv_transfer_params"] is None


@pytest.mark.parametrize("streamed", [False, True])
@on_a_stand(engine={"reply": "{seed}"})
async def test_several_prompts_are_numbered_prompt_by_prompt(s: Stand, streamed: bool) -> None:
    body = COMPLETION | {"prompt": ["a", "bcd"], "n": 2, "seed": 1, "echo": True}
    if streamed:
        events = await s.events("/v1/completions", body)
        texts = [contents(events, index) for index in range(4)]
    else:
        _, answer = await s.completion(**body)
        texts = [c["text"] for c in answer["choices"]]
        assert answer["usage"]["prompt_tokens"] == 4
    assert texts == ["a1", "a2", "bcd1", "bcd2"]


@on_a_stand()
async def test_echo_of_token_ids_is_their_text_and_max_tokens_0_shows_nothing_else(s: Stand) -> None:
    _, answer = await s.completion(prompt=tokens_of("tok"), echo=True)
    assert answer["choices"][0]["text"] == "tokhello"
    _, answer = await s.completion(prompt="only", echo=True, max_tokens=0)
    assert answer["choices"][0]["text"] == "only"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"stop": "STOP"}, "before "),
        ({"stop": ["nowhere", "STOP"]}, "before "),
        ({"stop": "STOP", "include_stop_str_in_output": True}, "before STOP"),
        ({"stop": "unfound"}, "before STOP after"),
        ({"stop_token_ids": tokens_of("S")}, "before "),
        ({"stop_token_ids": tokens_of("S"), "include_stop_str_in_output": True}, "before S"),
    ],
)
@on_a_stand(engine={"reply": "before STOP after"})
async def test_the_text_ends_before_what_stopped_it(s: Stand, asked: Any, text: str, streamed: bool) -> None:
    if streamed:
        chat = contents(await s.events("/v1/chat/completions", CHAT | asked | {"max_tokens": 100}))
        plain = contents(await s.events("/v1/completions", COMPLETION | asked | {"max_tokens": 100}))
    else:
        chat = (await s.chat(**asked, max_tokens=100))[1]["choices"][0]["message"]["content"]
        plain = (await s.completion(**asked, max_tokens=100))[1]["choices"][0]["text"]
    assert (chat, plain) == (text, text)


@on_a_stand(engine={"reply": "before STOP after", "token_s": 0.01})
async def test_no_part_of_a_stop_string_is_shown_before_it_is_known_whether_it_is_one(s: Stand) -> None:
    events = await s.events("/v1/chat/completions", CHAT | {"stop": "STOP"})
    shown = [c["delta"].get("content") or "" for e in events[:-1] for c in e["choices"]]
    assert not any("S" in text for text in shown)
    assert events[-2]["choices"][0]["stop_reason"] == "STOP"


@pytest.mark.parametrize("streamed", [False, True])
@on_a_stand(engine={"reply": ""})
async def test_an_answer_of_only_the_end_token_is_empty(s: Stand, streamed: bool) -> None:
    if streamed:
        events = await s.events("/v1/chat/completions", CHAT)
        assert contents(events) == "" and events[-2]["choices"][0]["finish_reason"] == "stop"
    else:
        status, answer = await s.chat()
        assert (status, answer["choices"][0]["message"]["content"]) == (200, "")
        assert answer["usage"]["completion_tokens"] == 1


@pytest.mark.parametrize("streamed", [False, True])
@on_a_stand(engine={"reply": "<think>why</think>so<tool>f|{}</tool><tool>g|{}</tool>"}, parsers=True)
async def test_reasoning_and_tool_calls_are_told_apart(s: Stand, streamed: bool) -> None:
    tools = {"tools": [{"type": "function", "function": {"name": "f"}}]}
    if streamed:
        events = await s.events("/v1/chat/completions", CHAT | tools)
        calls = [call for e in events[:-1] for c in e["choices"] for call in c["delta"].get("tool_calls", [])]
        assert contents(events, field="reasoning") == "why" and contents(events) == "so"
        reason = events[-2]["choices"][0]["finish_reason"]
    else:
        choice = (await s.chat(**tools))[1]["choices"][0]
        message, reason = choice["message"], choice["finish_reason"]
        assert (message["reasoning"], message["content"]) == ("why", "so")
        calls = message["tool_calls"]
    assert [call["function"]["name"] for call in calls] == ["f", "g"]
    assert reason == "tool_calls"


@on_a_stand(engine={"reply": "<tool>f|{}</tool><tool>g|{}</tool>"}, parsers=True)
async def test_parallel_tool_calls_false_keeps_the_first_call(s: Stand) -> None:
    _, answer = await s.chat(parallel_tool_calls=False)
    assert [call["function"]["name"] for call in answer["choices"][0]["message"]["tool_calls"]] == ["f"]


@on_a_stand(engine={"reply": "<tool>f|{}</tool>"}, parsers=True)
async def test_a_named_tool_s_call_ends_with_stop(s: Stand) -> None:
    _, answer = await s.chat(tool_choice={"type": "function", "function": {"name": "f"}})
    assert answer["choices"][0]["finish_reason"] == "stop"


@on_a_stand(engine={"reply": "<think>a STOP"}, parsers=True)
async def test_a_stop_string_within_reasoning_cuts_reasoning(s: Stand) -> None:
    _, answer = await s.chat(stop="STOP")
    assert answer["choices"][0]["message"]["reasoning"] == "a "


@on_a_stand(parsers=True)
async def test_derender_is_not_sent_the_conversation_with_each_chunk(s: Stand) -> None:
    long = [{"role": "user", "content": "z" * 2000}]
    await s.events("/v1/chat/completions", CHAT | {"messages": long})
    sent = [seen.body for seen in s.render[0].seen if seen.path.endswith("/derender")]
    assert sent and all("zz" not in str(body["chat_request"]) for body in sent)
    assert all(body["chat_request"]["messages"] == [{"role": "user", "content": ""}] for body in sent)


@on_a_stand(engine={"reply": "ab"}, parsers=True)
async def test_logprobs_are_streamed_where_derender_leaves_them_out(s: Stand) -> None:
    """With a parser its chunks have none; plain vLLM's have."""
    events = await s.events("/v1/chat/completions", CHAT | {"logprobs": True})
    streamed = [x for e in events[:-1] for c in e["choices"] for x in (c["logprobs"] or {}).get("content", [])]
    assert [entry["token"] for entry in streamed] == ["a", "b", ""]


@pytest.mark.parametrize(("asked", "shown"), [({"top_logprobs": 2}, 2), ({}, 0)])
@on_a_stand(engine={"reply": "ab"})
async def test_logprobs_show_as_many_candidates_as_were_asked_for(s: Stand, asked: Any, shown: int) -> None:
    _, answer = await s.chat(logprobs=True, **asked)
    content = answer["choices"][0]["logprobs"]["content"]
    assert [entry["token"] for entry in content] == ["a", "b", ""]
    assert {len(entry["top_logprobs"]) for entry in content} == {shown}
    events = await s.events("/v1/chat/completions", CHAT | {"logprobs": True, **asked})
    streamed = [x for e in events[:-1] for c in e["choices"] for x in (c["logprobs"] or {}).get("content", [])]
    assert [entry["token"] for entry in streamed] == ["a", "b", ""]
    assert {len(entry["top_logprobs"]) for entry in streamed} == {shown}


@on_a_stand()
async def test_prompt_logprobs_are_prefill_s_and_do_not_make_decode_prefill(s: Stand) -> None:
    _, answer = await s.chat(prompt_logprobs=1)
    assert answer["prompt_logprobs"] == [None, {"5": {"logprob": -1.0}}]
    assert (s.cluster.transfers, s.cluster.local_prefills) == (1, 0)


@on_a_stand()
async def test_token_ids_are_returned_on_wish(s: Stand) -> None:
    _, answer = await s.completion(return_token_ids=True)
    assert answer["choices"][0]["token_ids"] == [*tokens_of("hello"), 1]
    assert answer["choices"][0]["prompt_token_ids"] == tokens_of("hi there")


@on_a_stand()
async def test_the_request_id_is_the_client_s_on_each_leg_and_in_the_answer(s: Stand) -> None:
    async with s.post("/v1/chat/completions", CHAT, X_Request_Id="mine-1") as response:
        answer = await response.json()
    assert response.headers["X-Request-Id"] == "mine-1"
    assert answer["id"] == "chatcmpl-mine-1"
    seen = [one for tier in (*s.render, *s.prefill, *s.decode) for one in tier.seen]
    assert len(seen) == 4 and {one.headers["X-Request-Id"] for one in seen} == {"mine-1"}


@on_a_stand()
async def test_a_request_id_that_is_no_plain_word_is_replaced(s: Stand) -> None:
    async with s.post("/v1/chat/completions", CHAT, X_Request_Id="a b" * 100) as response:
        assert len(response.headers["X-Request-Id"]) == 32


@on_a_stand()
async def test_models_are_render_s(s: Stand) -> None:
    assert [model.id async for model in s.client().models.list()] == ["fake"]


@on_a_stand(render_parsers="no")
async def test_without_parsers_only_the_prompt_s_tail_travels_and_only_once(s: Stand) -> None:
    events = await s.events("/v1/chat/completions", CHAT | {"messages": [{"role": "user", "content": "y" * 500}]})
    assert contents(events) == "hello"
    sent = [seen.body for seen in s.render[0].seen if seen.path.endswith("/derender")]
    assert len(sent[0]["prompt_token_ids"]) == 32 and all(body["prompt_token_ids"] == [] for body in sent[1:])


@pytest.mark.parametrize("streamed", [False, True])
@on_a_stand(engine={"push": True, "token_s": 0.002}, dispatch="concurrent")
async def test_concurrent_dispatch_pushes_with_one_unguessable_id_on_both_legs(s: Stand, streamed: bool) -> None:
    for _ in range(3):
        if streamed:
            assert contents(await s.events("/v1/chat/completions", CHAT)) == "hello"
        else:
            assert (await s.chat())[1]["choices"][0]["message"]["content"] == "hello"
    assert (s.cluster.transfers, s.cluster.local_prefills) == (3, 0)
    prefills, decodes = of_generate(s.prefill), of_generate(s.decode)
    names = [seen.headers["X-Request-Id"] for seen in prefills]
    assert sorted(names) == sorted(seen.headers["X-Request-Id"] for seen in decodes)
    assert len(set(names)) == 3 and all(len(name) > 64 for name in names)


@on_a_stand(engine={"push": True}, dispatch="concurrent")
async def test_concurrent_dispatch_asks_decode_before_prefill_has_answered(s: Stand) -> None:
    await s.chat()  # learns the prefill server's coordinates, leg after leg
    s.prefill[0].delay_s = 1.0
    before = len(of_generate(s.decode))

    waiting = asyncio.create_task(s.chat())
    await until(lambda: len(of_generate(s.decode)) == before + 1)
    assert not waiting.done()
    status, answer = await waiting
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "hello")
    told = of_generate(s.decode)[-1].body["kv_transfer_params"]
    assert told["remote_engine_id"] == s.prefill[0].engine_id and told["tp_size"] == 1


@on_a_stand(engine={"push": True}, dispatch="concurrent")
async def test_a_prefill_server_that_restarted_is_learnt_anew(s: Stand) -> None:
    await s.chat()
    s.prefill[0].engine_id = "another"
    status, answer = await s.chat()
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "hello")
    assert of_generate(s.decode)[-1].body["kv_transfer_params"]["remote_engine_id"] == "another"
    assert await s.metric("restarts_total") == 1
