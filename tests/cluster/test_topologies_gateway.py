"""The gateway beside plain vLLM: OpenAI's own client sees no difference. And what it does when pods die.

Plain vLLM is the release's own prefiller, which serves the same model by itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import openai
import pytest

from components.release.cluster import Cluster
from components.release.probe import parse_metrics, total
from tests.cluster.asking import ENGINE_PORT, Record, cluster_of, engine_url, pods_of, shaped
from tools.client import StreamingClient
from tools.deployment import Deployment

LIMIT_S = 60
OWN = ("id", "created", "system_fingerprint", "request_id")
"""What differs from one answer to the next of the same server."""
LOGPROB_TOLERANCE = 0.1
QUIET_LIMIT_S = 30
RECOVERY_LIMIT_S = 150
SETTLED_S = 10
QUESTION = [{"role": "user", "content": "Which licence is this project under? Answer in one word."}]
LONG = [{"role": "user", "content": "the work of the licensor, " * 50 + "and so on."}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather in a city",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "maxLength": 8}, "days": {"type": "integer", "maximum": 9}},
                "required": ["city", "days"],
                "additionalProperties": False,
            },
        },
    }
]


@pytest.fixture(scope="module")
def stack(deployment: Deployment) -> Deployment:
    """The stack with a render tier before prefill and decode, parsing tool calls."""

    def parsing(settings: dict[str, Any]) -> None:
        shaped("prefill-decode", 1)(settings)
        settings["splitserve:chat"] = {"toolParser": "hermes"}

    finished = deployment.up(parsing)
    assert finished.code == 0, finished.text
    return deployment


@pytest.fixture(scope="module")
def cluster(stack: Deployment) -> Cluster:
    return cluster_of(stack)


def client(base: str) -> openai.OpenAI:
    http = openai.DefaultHttpxClient(trust_env=False, timeout=LIMIT_S)
    return openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0, http_client=http)


@pytest.fixture(scope="module")
def gateway(stack: Deployment) -> openai.OpenAI:
    return client(stack.outputs()["endpoint"])


@pytest.fixture(scope="module")
def plain(stack: Deployment) -> openai.OpenAI:
    return client(engine_url(stack, "prefill"))


Ask = Callable[[openai.OpenAI], Any]
M: dict[str, Any] = {"model": "tiny-qwen3"}
GREEDY: dict[str, Any] = M | {"temperature": 0, "max_tokens": 16}
CHAT: dict[str, Any] = GREEDY | {"messages": QUESTION}
NAMED: Any = {"type": "function", "function": {"name": "weather"}}


def chat(**more: Any) -> Ask:
    return lambda c: c.chat.completions.create(**(CHAT | more))


def complete(**more: Any) -> Ask:
    return lambda c: c.completions.create(**(GREEDY | {"prompt": "The licence says"} | more))


USAGE: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
CASES: dict[str, Ask] = {
    "chat": chat(),
    "chat of a longer prompt": chat(messages=LONG),
    "chat with a system message": chat(messages=[{"role": "system", "content": "Be short."}, *QUESTION]),
    "chat with logprobs": chat(logprobs=True, top_logprobs=3, max_tokens=6),
    "chat with a stop string": chat(stop=["e"], max_tokens=32),
    "chat with a seed and two answers": chat(n=2, temperature=0.9, seed=7),
    "chat streamed": chat(stream=True),
    "chat streamed with usage": chat(**USAGE),
    "chat streamed with logprobs": chat(logprobs=True, top_logprobs=2, max_tokens=6, **USAGE),
    "chat streamed with a stop string": chat(stop=["e"], max_tokens=32, **USAGE),
    "a named tool": chat(tools=TOOLS, tool_choice=NAMED, max_tokens=48),
    "a required tool": chat(tools=TOOLS, tool_choice="required", max_tokens=64),
    "a named tool streamed": chat(tools=TOOLS, tool_choice=NAMED, max_tokens=48, stream=True),
    "tools to choose from": chat(tools=TOOLS),
    "a JSON schema": chat(response_format={"type": "json_schema", "json_schema": {
        "name": "city", "schema": TOOLS[0]["function"]["parameters"]}}, max_tokens=48),
    "completion": complete(),
    "completion of two prompts": complete(prompt=["The licence says", "The work of"]),
    "completion of tokens": complete(prompt=[5, 6, 7, 8, 9, 10]),
    "completion with logprobs": complete(logprobs=2, max_tokens=5),
    "completion streamed": complete(**USAGE),
    "completion echoed": complete(echo=True),
    "an unknown model": chat(model="gpt-none"),
    "more tokens than the model has": chat(max_tokens=100_000),
    "a temperature below zero": chat(temperature=-1),
    "no messages": chat(messages=[]),
    "the models": lambda c: c.models.list(),
}  # fmt: skip


def seen(ask: Ask, by: openai.OpenAI) -> Any:
    """What the client gets, without what differs from answer to answer: streams as the answer they add up to."""
    try:
        answer = ask(by)
    except openai.APIStatusError as error:
        body: Any = error.body if isinstance(error.body, dict) else {}
        return {"status": error.status_code, "class": type(error).__name__, "type": body.get("type"),
                "message": body.get("message"), "param": body.get("param")}  # fmt: skip
    if isinstance(answer, openai.Stream):
        return added_up(answer)
    return comparable(answer.model_dump())


def comparable(value: Any) -> Any:
    """Rounded, and without each server's own names for things."""
    if isinstance(value, dict):
        return {key: comparable(inner) for key, inner in value.items() if key not in OWN and inner is not None}
    if isinstance(value, list):
        return [comparable(inner) for inner in value]
    return value


def added_up(stream: Iterator[Any]) -> dict[str, Any]:
    """A stream's sum: text, tool calls and logprobs by choice, reasons, usage. How it was cut is no matter."""
    sums: dict[int, dict[str, Any]] = {}
    usage, objects = None, set()
    for chunk in stream:
        found = comparable(chunk.model_dump())
        usage = found.get("usage") or usage
        objects.add(found["object"])
        for choice in found["choices"]:
            own = sums.setdefault(choice["index"], {"text": "", "arguments": "", "names": [], "logprobs": []})
            delta = choice.get("delta") or choice
            own["text"] += delta.get("content") or delta.get("text") or ""
            for call in delta.get("tool_calls") or []:
                own["arguments"] += call["function"].get("arguments") or ""
                own["names"] += [call["function"]["name"]] if call["function"].get("name") else []
            own["logprobs"] += (choice.get("logprobs") or {}).get("content") or []
            own |= {key: choice[key] for key in ("finish_reason", "stop_reason") if key in choice}
    return {"choices": sums, "usage": usage, "objects": objects}


def near(left: Any, right: Any) -> bool:
    """Equal; log-probabilities within what another batch shape changes in bfloat16."""
    if isinstance(left, float) and isinstance(right, float):
        return abs(left - right) <= LOGPROB_TOLERANCE
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(near(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(near, left, right))
    return left == right


@pytest.mark.parametrize("case", CASES)
def test_openais_client_sees_plain_vllm(case: str, gateway: openai.OpenAI, plain: openai.OpenAI) -> None:
    through, directly = seen(CASES[case], gateway), seen(CASES[case], plain)
    assert near(through, directly), json.dumps([through, directly], indent=1, default=str)


def engines_run(cluster: Cluster, stack: Deployment) -> float:
    """Requests that the engines run or hold."""
    count = 0.0
    for found in cluster.pods(stack.outputs()["live"]):
        if found.tier in ("prefill", "decode"):
            series = parse_metrics(cluster.pod_page(found.name, ENGINE_PORT, "metrics"))
            count += sum(total(series, f"vllm:num_requests_{state}") or 0 for state in ("running", "waiting"))
    return count


def test_a_client_that_goes_away_takes_its_request_with_it(
    gateway: openai.OpenAI, cluster: Cluster, stack: Deployment
) -> None:
    with gateway.chat.completions.create(**(CHAT | {"max_tokens": 1500, "stream": True}),
                                         extra_body={"ignore_eos": True}) as stream:  # fmt: skip
        for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                break
        assert engines_run(cluster, stack) > 0
    deadline = time.monotonic() + QUIET_LIMIT_S
    while engines_run(cluster, stack) > 0:
        assert time.monotonic() < deadline, "the engines go on with a request that nobody waits for"
        time.sleep(0.5)


def test_a_client_can_not_name_a_cache_to_fetch(gateway: openai.OpenAI, stack: Deployment) -> None:
    """`kv_transfer_params` make an engine connect to a host that is named there."""
    theirs = {"do_remote_prefill": True, "remote_engine_id": "x", "remote_block_ids": [[1]], "remote_host": "198.18.255.1",
              "remote_port": 1, "remote_request_id": "x"}  # fmt: skip
    answer = gateway.chat.completions.create(**CHAT, extra_body={"kv_transfer_params": theirs})
    assert answer.choices[0].message.content == gateway.chat.completions.create(**CHAT).choices[0].message.content


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b"[1]", 400), (b'{"model": "tiny-qwen3"}', 400), (b"{" + b" " * (100 << 20) + b"}", 413)],
    ids=["malformed", "a-list", "no-messages", "a-hundred-megabytes"],
)
def test_a_bad_body_is_told_in_openais_format(stack: Deployment, body: bytes, status: int) -> None:
    url = f"{stack.outputs()['endpoint']}/v1/chat/completions"
    headers = {"Content-Type": "application/json"}
    reply = httpx.post(url, content=body, headers=headers, timeout=LIMIT_S, trust_env=False)
    assert reply.status_code == status, reply.text
    assert reply.json()["error"].keys() >= {"message", "type", "code", "param"}


@pytest.mark.parametrize("tier", ["render", "decode", "prefill", "router"])
def test_a_pod_that_dies_is_replaced_and_serving_goes_on(
    stack: Deployment, cluster: Cluster, tier: str, record_property: Record
) -> None:
    """One pod a tier: requests fail while it is away, and none any more once it is back. A new prefiller
    has another engine id, which the decoder must accept."""
    outputs = stack.outputs()
    with StreamingClient(outputs["endpoint"], outputs["model"]) as meanwhile:
        time.sleep(3)
        gone = pods_of(stack, tier)[0]
        cluster.core.delete_namespaced_pod(gone.name, stack.namespace, grace_period_seconds=0)
        started = time.monotonic()
        wait_replaced(cluster, stack, tier, gone.name)
        ready_s = time.monotonic() - started
        while not served(outputs):
            time.sleep(0.5)
            assert time.monotonic() - started < RECOVERY_LIMIT_S, f"not served again: {meanwhile.counts.errors[-3:]}"
    with StreamingClient(outputs["endpoint"], outputs["model"]) as after:
        time.sleep(SETTLED_S)
    lost = {
        "requests": meanwhile.counts.requests,
        "failed": meanwhile.counts.failed,
        "truncated": meanwhile.counts.truncated,
    }
    figures = {"ready_s": round(ready_s, 1), "outage_s": round(meanwhile.counts.outage_s, 1), **lost}
    record_property(f"{tier} killed", json.dumps(figures))
    assert (after.counts.failed, after.counts.truncated) == (0, 0), after.counts.errors


def served(outputs: dict[str, Any]) -> bool:
    """Whether one request is answered; nobody at the address is an answer, too."""
    body = {"model": outputs["model"], "messages": LONG, "max_tokens": 8}
    url = f"{outputs['endpoint']}/v1/chat/completions"
    try:
        return httpx.post(url, json=body, timeout=LIMIT_S, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def wait_replaced(cluster: Cluster, stack: Deployment, tier: str, gone: str) -> None:
    """Until another pod of the tier is ready."""
    release, deadline = stack.outputs()["live"], time.monotonic() + RECOVERY_LIMIT_S
    while not any(p.tier == tier and p.ready and p.name != gone for p in cluster.pods(release)):
        assert time.monotonic() < deadline, f"no new {tier} pod got ready"
        time.sleep(0.5)
