"""The probe: measure KV transfers pair by pair from inside the cluster.

Runs as a Job on the release's own image, on the standard library alone. Reads a plan (JSON, its
path is the only argument) and prints its evidence as the last line, after `EVIDENCE `. It judges
nothing: what it could not measure, it says so.

Plan:   pairs [[prefill, decode], ...] (each {name, url}), router url or null, model, vocabulary,
        prompt_tokens, answer_tokens, samples, age {mode: off|on, limit_s}, max_model_len,
        request_limit_s
Evidence: {"pairs": [{prefill, decode, fresh: [sample], aged: [sample], error, failed}], "router": {...},
        "ageing": {...}, "seconds": {...}}
Sample: {tokens, ms, post_ms, bytes, descriptors, transfers, failed, external_tokens,
        prefill_tokens, decode_tokens, prefill_ms, decode_ms, answer, reference}

Metric names: vllm 0.32 `distributed/kv_transfer/kv_connector/v1/nixl/stats.py` and
`v1/metrics/loggers.py`. With a pulling connector the decoder owns the transfer metrics.
"""

import json
import random
import re
import sys
import threading
import time
import urllib.error
import urllib.request

WARM_UP_TOKENS = 48
SETTLE_LIMIT_S = 15.0
"""How long counters may lag behind an answer: a starved node publishes them seconds later."""
SETTLED_LIMIT_S = 3.0
"""The same once a request has moved nothing: a decoder that moves nothing never will."""
ALONE_TRIES = 12
"""How often a sample is taken before the probe gives up finding the decoder free of other requests."""
AGEING_STREAMS = 4
AGEING_MARGIN = 1.25  # pass a quarter more tokens than the cache holds: it has wrapped for sure
DECODER = {
    "ms": ("vllm:nixl_xfer_time_seconds_sum", 1000.0),
    "post_ms": ("vllm:nixl_post_time_seconds_sum", 1000.0),
    "bytes": ("vllm:nixl_bytes_transferred_sum", 1),
    "descriptors": ("vllm:nixl_num_descriptors_sum", 1),
    "transfers": ("vllm:nixl_xfer_time_seconds_count", 1),
    "failed": ("vllm:nixl_num_failed_transfers_total", 1),
    "external_tokens": ('vllm:prompt_tokens_by_source_total{source="external_kv_transfer"}', 1),
}
LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class CannotMeasure(Exception):
    """Something that the measurement needs is missing or does not answer."""


class Client:
    """HTTP on one set of limits. Every failure is a CannotMeasure or carries the server's answer."""

    def __init__(self, limit_s):
        self.limit_s = limit_s

    def get(self, url):
        return self._send(urllib.request.Request(url)).decode()

    def post(self, url, body):
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        return json.loads(self._send(request))

    def _send(self, request):
        try:
            with urllib.request.urlopen(request, timeout=self.limit_s) as response:
                return response.read()
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")[:300]
            raise CannotMeasure(f"{request.full_url} answered {error.code}: {text}") from None
        except OSError as error:
            raise CannotMeasure(f"{request.full_url} does not answer: {error}") from None


def parse_metrics(text):
    """Prometheus text to {name: [(labels, value)]}."""
    series = {}
    for line in text.splitlines():
        match = LINE.match(line)
        if match and not line.startswith("#"):
            labels = dict(LABEL.findall(match[2] or ""))
            series.setdefault(match[1], []).append((labels, float(match[3])))
    return series


def total(series, wanted):
    """The sum of a series over all label sets that match; None when the series is missing."""
    name, _, selector = wanted.partition("{")
    if name not in series:
        return None
    needed = dict(LABEL.findall(selector))
    return sum(v for labels, v in series[name] if needed.items() <= labels.items())


def counters(client, url):
    """The decoder's transfer counters. A missing series is None, and a page without vLLM's own
    series can't be measured at all."""
    series = parse_metrics(client.get(f"{url}/metrics"))
    if not any(name.startswith("vllm:") for name in series):
        raise CannotMeasure(f"{url}/metrics has no vLLM series: are its statistics switched off?")
    read = {key: total(series, name) for key, (name, _) in DECODER.items()}
    read["prompt_tokens"] = total(series, "vllm:prompt_tokens_total")
    return read


def random_prompt(plan, tokens):
    """Token ids drawn at random, from the first on, so that no prefix cache can hold any of it.
    The first and last ids of a vocabulary may be special; they are left out."""
    low, high = 256, max(plan["vocabulary"] - 256, 512)
    return [random.randrange(low, high) for _ in range(tokens)]


def complete(client, url, plan, prompt, tokens, params=None):
    body = {
        "model": plan["model"],
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
    }
    if params is not None:
        body["kv_transfer_params"] = params
    return client.post(f"{url}/v1/completions", body)


def transfer(client, plan, pair, prompt, tokens):
    """One disaggregated request: prefill on one pod, then decode on the other. Returns
    (answer text, prefill ms, decode ms)."""
    prefill, decode = pair
    started = time.monotonic()
    asked = {
        "do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None,
        "remote_block_ids": None, "remote_host": None, "remote_port": None,
    }  # fmt: skip
    first = complete(client, prefill["url"], plan, prompt, 1, asked)
    middle = time.monotonic()
    second = complete(client, decode["url"], plan, prompt, tokens, first.get("kv_transfer_params") or {})
    ended = time.monotonic()
    return second["choices"][0]["text"], (middle - started) * 1000, (ended - middle) * 1000


def settled(client, url, before, still):
    """The counters after a request: vLLM publishes them with a later engine step. `still` holds the
    decoders that have moved nothing yet."""
    deadline = time.monotonic() + (SETTLED_LIMIT_S if url in still else SETTLE_LIMIT_S)
    while True:
        after = counters(client, url)
        if all((after[key] or 0) > (before[key] or 0) for key in ("transfers", "prompt_tokens")):
            return after
        if time.monotonic() > deadline:
            still.add(url)
            return after
        time.sleep(0.02)


def sample(client, plan, pair, still):
    """Measure one transfer with a fresh prompt, one request at a time."""
    prefill, decode = pair
    prompt = random_prompt(plan, plan["prompt_tokens"])
    served = counters(client, prefill["url"])["prompt_tokens"] or 0
    before = counters(client, decode["url"])
    answer, prefill_ms, decode_ms = transfer(client, plan, pair, prompt, plan["answer_tokens"])
    after = settled(client, decode["url"], before, still)
    prefilled = (counters(client, prefill["url"])["prompt_tokens"] or 0) - served
    result = {
        key: None if after[key] is None else (after[key] - (before[key] or 0)) * factor
        for key, (_, factor) in DECODER.items()
    }
    # The prefiller answers from the KV cache that it computed itself: what collocated serving says.
    reference = complete(client, prefill["url"], plan, prompt, plan["answer_tokens"])
    return result | {
        "tokens": len(prompt),
        "prefill_tokens": prefilled,
        "decode_tokens": (after["prompt_tokens"] or 0) - (before["prompt_tokens"] or 0),
        "prefill_ms": prefill_ms,
        "decode_ms": decode_ms,
        "answer": answer,
        "reference": reference["choices"][0]["text"],
    }


def sample_alone(client, plan, pair, still):
    """A sample during which the decoder served nobody else: its counters tell no requests apart."""
    for _ in range(ALONE_TRIES):
        result = sample(client, plan, pair, still)
        if result["decode_tokens"] <= result["tokens"]:
            return result
        say(f"{pair[1]['name']} served other requests meanwhile: taking the sample again")
    raise CannotMeasure(f"{pair[1]['name']} served other requests during each of {ALONE_TRIES} samples")


def warm_up(client, plan, pair, warm):
    """Send each pod one plain request and the pair one transfer, which is discarded: it pays for the
    handshake."""
    for pod in pair:
        if pod["name"] not in warm:
            complete(client, pod["url"], plan, random_prompt(plan, WARM_UP_TOKENS), 2)
            warm.add(pod["name"])
    transfer(client, plan, pair, random_prompt(plan, plan["prompt_tokens"]), 2)


def cache_tokens(client, url):
    """How many tokens the pod's KV cache holds."""
    series = parse_metrics(client.get(f"{url}/metrics"))
    infos = series.get("vllm:cache_config_info")
    if not infos:
        raise CannotMeasure(f"{url}/metrics has no vllm:cache_config_info")
    labels = infos[0][0]
    return int(labels["num_gpu_blocks"]) * int(labels["block_size"])


class Ageing:
    """Concurrent transfers of random length until every cache has wrapped or the time is over."""

    def __init__(self, client, plan, pairs):
        self.client, self.plan, self.pairs = client, plan, pairs
        self.deadline = time.monotonic() + plan["age"]["limit_s"]
        self.needed = {pod["name"]: cache_tokens(client, pod["url"]) for pair in pairs for pod in pair}
        self.passed = dict.fromkeys(self.needed, 0)
        self.lock = threading.Lock()
        self.errors = []

    def wrapped(self, name):
        return self.passed[name] >= self.needed[name] * AGEING_MARGIN

    def next_pair(self):
        """A pair whose caches have not wrapped yet, with the length of its next prompt; or None."""
        with self.lock:
            for pair in self.pairs:
                if not all(self.wrapped(pod["name"]) for pod in pair):
                    longest = self.plan["max_model_len"] - 64
                    tokens = random.randrange(min(64, longest // 2), longest)
                    for pod in pair:
                        self.passed[pod["name"]] += tokens
                    return pair, tokens
        return None

    def load(self):
        while time.monotonic() < self.deadline and not self.errors:
            following = self.next_pair()
            if following is None:
                return
            pair, tokens = following
            try:
                transfer(self.client, self.plan, pair, random_prompt(self.plan, tokens), random.randrange(1, 24))
            except CannotMeasure as error:
                self.errors.append(str(error))


def age(client, plan, pairs):
    """Load every pair until more tokens have passed than its caches hold. Returns what was done;
    `complete` says whether every cache has wrapped."""
    started = time.monotonic()
    ageing = Ageing(client, plan, pairs)
    streams = [threading.Thread(target=ageing.load) for _ in range(AGEING_STREAMS)]
    for stream in streams:
        stream.start()
    for stream in streams:
        stream.join()
    return {
        "complete": all(map(ageing.wrapped, ageing.needed)) and not ageing.errors,
        "seconds": time.monotonic() - started,
        "cache_tokens": max(ageing.needed.values()),
        "passed_tokens": min(ageing.passed.values()),
        "error": ageing.errors[0] if ageing.errors else None,
    }


def failed_transfers(client, pod):
    """The decoder's failed transfers since it started; 0 when it can't be asked any more."""
    try:
        return counters(client, pod["url"])["failed"] or 0
    except CannotMeasure:
        return 0


def measure_pairs(client, plan, results, key, still):
    """Take the samples of every pair; a pair that can't be measured says why and is left."""
    for result, pair in zip(results, plan["pairs"], strict=True):
        if result["error"]:
            continue
        try:
            for number in range(plan["samples"]):
                result[key].append(sample_alone(client, plan, pair, still))
                say(f"{pair[0]['name']} -> {pair[1]['name']}: {key} sample {number + 1}")
        except CannotMeasure as error:
            result["error"] = str(error)
            result["failed"] = failed_transfers(client, pair[1])


def through_router(client, plan):
    """One request through the release's own router: the decoders must receive its prompt as KV."""
    decoders = {decode["name"]: decode["url"] for _, decode in plan["pairs"]}
    prompt = random_prompt(plan, plan["prompt_tokens"])

    def received():
        return sum(counters(client, url)["external_tokens"] or 0 for url in decoders.values())

    try:
        before = received()
        complete(client, plan["router"], plan, prompt, plan["answer_tokens"])
        deadline = time.monotonic() + SETTLE_LIMIT_S
        while received() == before and time.monotonic() < deadline:
            time.sleep(0.05)
        return {"tokens": len(prompt), "external_tokens": received() - before, "error": None}
    except CannotMeasure as error:
        return {"tokens": len(prompt), "external_tokens": 0, "error": str(error)}


def probe(plan):
    """Warm up, measure fresh, age, measure again, and ask the router once."""
    client = Client(plan["request_limit_s"])
    results = [
        {"prefill": p["name"], "decode": d["name"], "fresh": [], "aged": [], "error": None, "failed": 0}
        for p, d in plan["pairs"]
    ]
    evidence = {"pairs": results, "router": None, "ageing": None, "seconds": {}}
    started, warm, still = time.monotonic(), set(), set()
    for result, pair in zip(results, plan["pairs"], strict=True):
        try:
            warm_up(client, plan, pair, warm)
        except CannotMeasure as error:
            result["error"] = str(error)
            result["failed"] = failed_transfers(client, pair[1])
    measure_pairs(client, plan, results, "fresh", still)
    if plan["router"]:
        evidence["router"] = through_router(client, plan)
    evidence["seconds"]["fresh"] = time.monotonic() - started
    measurable = [p for r, p in zip(results, plan["pairs"], strict=True) if r["error"] is None]
    if plan["age"]["mode"] == "on" and measurable:
        say("ageing the KV cache")
        try:
            evidence["ageing"] = age(client, plan, measurable)
        except CannotMeasure as error:
            evidence["ageing"] = {"complete": False, "seconds": 0, "error": str(error)}
        if evidence["ageing"]["complete"]:
            measure_pairs(client, plan, results, "aged", still)
    evidence["seconds"]["all"] = time.monotonic() - started
    return evidence


def say(text):
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        print("EVIDENCE " + json.dumps(probe(json.load(file))), flush=True)
