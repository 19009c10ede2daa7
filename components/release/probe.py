"""The probe: measure KV transfers pair by pair from inside the cluster.

Runs as a Job on the release's own image, on the standard library alone. Reads a plan (JSON, its
path is the only argument) and prints its evidence as the last line, after `EVIDENCE `. It judges
nothing: what it could not measure, it says so.

Plan:   pairs [[prefill, decode], ...] (each {name, url}), router url or null, render [{name, url}, ...],
        embeddings [[encoder, engine], ...], reference (an engine's url, for what the render tier makes of a
        prompt), measurement, model, vocabulary,
        prompt_tokens, answer_tokens, samples, age {mode: off|on, limit_s}, max_model_len,
        request_limit_s
Evidence: {"pairs": [{prefill, decode, fresh: [sample], aged: [sample], error, failed}], "router": {...},
        "render": {...}, "encoder": {...}, "ageing": {...}, "seconds": {...}}
Sample: {tokens, ms, post_ms, bytes, descriptors, transfers, failed, external_tokens,
        prefill_tokens, decode_tokens, prefill_ms, decode_ms, answer, reference}

Which series hold the transfers, and on which side, is the plan's `measurement`
(components/serving/connectors/measurement.py). A key of it may be missing: Pulumi's engine leaves out what is None.
"""

import base64
import json
import os
import random
import re
import struct
import sys
import threading
import time
import urllib.error
import urllib.request
import zlib

WARM_UP_TOKENS = 48
SETTLE_LIMIT_S = 15.0
"""How long counters may lag behind an answer: a starved node publishes them seconds later."""
SETTLED_LIMIT_S = 3.0
"""The same once a request has moved nothing: a decoder that moves nothing never will."""
ALONE_TRIES = 12
"""How often a sample is taken before the probe gives up finding the decoder free of other requests."""
AGEING_STREAMS = 4
AGEING_MARGIN = 1.25  # pass a quarter more tokens than the cache holds: it has wrapped for sure
CHAT_WORDS = 64
ANSWERS = 3
"""Near ties at temperature 0 may fall the other way in another batch shape: not in most of three."""
IMAGE_PIXELS = 112
"""Each side of the probe's images: a few tokens for every model of today."""
ROUTER_KEY_VARIABLE = "ROUTER_API_KEY"
"""Holds the keys of the release's own router, one a line, where it asks for one."""
TRANSFER_KEYS = ("ms", "post_ms", "bytes", "descriptors", "transfers", "failed", "external_tokens")
PROMPT_TOKENS = "vllm:prompt_tokens_total"
SERVED = ("prefill_prompt_tokens", "decode_prompt_tokens")
LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class CannotMeasure(Exception):
    """Something that the measurement needs is missing or does not answer."""


class Client:
    """HTTP on one set of limits. Every failure is a CannotMeasure or carries the server's answer."""

    def __init__(self, limit_s, key=""):
        """`key` opens the release's own router; the engines, which have none, ignore it."""
        self.limit_s = limit_s
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    def get(self, url):
        return self._send(urllib.request.Request(url)).decode()

    def post(self, url, body, headers=None):
        headers = {"Content-Type": "application/json", **self.headers, **(headers or {})}
        return json.loads(self._send(urllib.request.Request(url, json.dumps(body).encode(), headers)))

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


def page(client, url):
    """A pod's series. A page without vLLM's own can't be measured at all."""
    series = parse_metrics(client.get(f"{url}/metrics"))
    if not any(name.startswith("vllm:") for name in series):
        raise CannotMeasure(f"{url}/metrics has no vLLM series: are its statistics switched off?")
    return series


def counters(client, plan, pair):
    """The pair's transfer counters, in the probe's units. A series that no side has is None, or 0 where the
    connector makes it on first use."""
    how = plan["measurement"]
    pages = {side: page(client, pod["url"]) for side, pod in zip(("prefill", "decode"), pair, strict=True)}
    read = dict.fromkeys(TRANSFER_KEYS, 0 if how["onFirstUse"] else None)
    for key, series in how["series"].items():
        found = [value for side in series["sides"] if (value := total(pages[side], series["name"])) is not None]
        if found:
            read[key] = sum(found) * series["factor"]
    return read | {f"{side}_prompt_tokens": total(series, PROMPT_TOKENS) or 0 for side, series in pages.items()}


def external_tokens(client, plan, url):
    """Prompt tokens that a decoder received as KV cache."""
    return total(page(client, url), plan["measurement"]["series"]["external_tokens"]["name"]) or 0


def random_prompt(plan, tokens):
    """Token ids drawn at random, from the first on, so that no prefix cache can hold any of it.
    The first and last ids of a vocabulary may be special; they are left out."""
    low, high = 256, max(plan["vocabulary"] - 256, 512)
    return [random.randrange(low, high) for _ in range(tokens)]


def complete(client, url, plan, prompt, tokens, params=None, headers=None):
    body = {
        "model": plan["model"],
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
    }
    if params is not None:
        body["kv_transfer_params"] = params
    return client.post(f"{url}/v1/completions", body, headers or {})


def transfer_params(client, plan, prefill):
    """What prefill is asked, and what decode is told where prefill's own answer doesn't say it: with Mooncake
    its bootstrap server does (vllm 0.32 `mooncake/mooncake_connector.py`)."""
    port = plan["measurement"].get("bootstrapPort")
    if port is None:
        return {
            "do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None,
            "remote_block_ids": None, "remote_host": None, "remote_port": None,
        }, None  # fmt: skip
    address = f"{prefill['url'].rpartition(':')[0]}:{port}"
    ranks = json.loads(client.get(f"{address}/query"))
    if "0" not in ranks:
        raise CannotMeasure(f"{address}/query names no engine: {json.dumps(ranks)[:300]}")
    name = f"probe-{random.getrandbits(64):x}"
    asked = {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": name}
    told = {"do_remote_decode": False, "do_remote_prefill": True, "transfer_id": name,
            "remote_engine_id": ranks["0"]["engine_id"], "remote_bootstrap_addr": address}  # fmt: skip
    return asked, told


def transfer(client, plan, pair, prompt, tokens):
    """One disaggregated request: prefill on one pod, then decode on the other. Returns
    (answer text, prefill ms, decode ms)."""
    prefill, decode = pair
    started = time.monotonic()
    asked, told = transfer_params(client, plan, prefill)
    # A connector that pushes knows the two requests for one by this.
    headers = {"X-Request-Id": f"probe-{random.getrandbits(64):x}"} if plan["measurement"]["sameRequestId"] else {}
    first = complete(client, prefill["url"], plan, prompt, 1, asked, headers)
    middle = time.monotonic()
    params = told or first.get("kv_transfer_params") or {}
    second = complete(client, decode["url"], plan, prompt, tokens, params, headers)
    ended = time.monotonic()
    return second["choices"][0]["text"], (middle - started) * 1000, (ended - middle) * 1000


def settled(client, plan, pair, before, still):
    """The counters after a request: vLLM publishes them with a later engine step. `still` holds the
    decoders that have received nothing yet."""
    url = pair[1]["url"]
    arriving = "external_tokens" if plan["measurement"].get("unmeasured") else "transfers"
    deadline = time.monotonic() + (SETTLED_LIMIT_S if url in still else SETTLE_LIMIT_S)
    while True:
        after = counters(client, plan, pair)
        if all((after[key] or 0) > (before[key] or 0) for key in (arriving, *SERVED)):
            return after
        if time.monotonic() > deadline:
            still.add(url)
            return after
        time.sleep(0.02)


def sample(client, plan, pair, still):
    """Measure one transfer with a fresh prompt, one request at a time."""
    prompt = random_prompt(plan, plan["prompt_tokens"])
    before = counters(client, plan, pair)
    answer, prefill_ms, decode_ms = transfer(client, plan, pair, prompt, plan["answer_tokens"])
    after = settled(client, plan, pair, before, still)
    result = {key: None if after[key] is None else after[key] - (before[key] or 0) for key in TRANSFER_KEYS}
    # The prefiller answers from the KV cache that it computed itself: what collocated serving says.
    reference = complete(client, pair[0]["url"], plan, prompt, plan["answer_tokens"])
    return result | {
        "tokens": len(prompt),
        "prefill_tokens": after["prefill_prompt_tokens"] - before["prefill_prompt_tokens"],
        "decode_tokens": after["decode_prompt_tokens"] - before["decode_prompt_tokens"],
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
    """How many tokens the pod's KV caches hold: a data-parallel engine has one for each rank."""
    series = parse_metrics(client.get(f"{url}/metrics"))
    infos = series.get("vllm:cache_config_info")
    if not infos:
        raise CannotMeasure(f"{url}/metrics has no vllm:cache_config_info")
    return sum(int(labels["num_gpu_blocks"]) * int(labels["block_size"]) for labels, _ in infos)


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
    # Daemons, and no further request after an interruption: whoever ends the probe waits for none of them.
    streams = [threading.Thread(target=ageing.load, daemon=True) for _ in range(AGEING_STREAMS)]
    try:
        for stream in streams:
            stream.start()
        for stream in streams:
            stream.join()
    finally:
        ageing.deadline = 0.0
    return {
        "complete": all(map(ageing.wrapped, ageing.needed)) and not ageing.errors,
        "seconds": time.monotonic() - started,
        "cache_tokens": max(ageing.needed.values()),
        "passed_tokens": min(ageing.passed.values()),
        "error": ageing.errors[0] if ageing.errors else None,
    }


def failed_transfers(client, plan, pair):
    """The pair's failed transfers since it started, of those sides that can still be asked."""
    series, count = plan["measurement"]["series"].get("failed"), 0
    for side, pod in zip(("prefill", "decode"), pair, strict=True):
        if series and side in series["sides"]:
            try:
                count += total(page(client, pod["url"]), series["name"]) or 0
            except CannotMeasure:
                continue
    return count


def moved(result):
    """Whether any of a pair's samples moved something."""
    return any((sample["transfers"] or 0) > 0 or (sample["external_tokens"] or 0) > 0 for sample in result["fresh"])


def measure_pairs(client, plan, results, key, still):
    """Take the samples of every pair; a pair that can't be measured says why and is left, and where nothing moves
    fresh, nothing is measured aged."""
    for result, pair in zip(results, plan["pairs"], strict=True):
        if result["error"] or (key == "aged" and not moved(result)):
            continue
        try:
            for number in range(plan["samples"]):
                result[key].append(sample_alone(client, plan, pair, still))
                say(f"{pair[0]['name']} -> {pair[1]['name']}: {key} sample {number + 1}")
        except CannotMeasure as error:
            result["error"] = str(error)
            result["failed"] = failed_transfers(client, plan, pair)


def through_router(client, plan):
    """One request through the release's own router: the decoders must receive its prompt as KV."""
    decoders = {decode["name"]: decode["url"] for _, decode in plan["pairs"]}
    prompt = random_prompt(plan, plan["prompt_tokens"])

    def received():
        return sum(external_tokens(client, plan, url) for url in decoders.values())

    try:
        before = received()
        complete(client, plan["router"], plan, prompt, plan["answer_tokens"])
        deadline = time.monotonic() + SETTLE_LIMIT_S
        while received() == before and time.monotonic() < deadline:
            time.sleep(0.05)
        return {"tokens": len(prompt), "external_tokens": received() - before, "error": None}
    except CannotMeasure as error:
        return {"tokens": len(prompt), "external_tokens": 0, "error": str(error)}


def chat_body(plan, text):
    return {
        "model": plan["model"],
        "messages": [{"role": "user", "content": text}],
        "max_tokens": plan["answer_tokens"],
        "temperature": 0,
    }


def text_body(plan, text):
    return {"model": plan["model"], "prompt": text, "max_tokens": plan["answer_tokens"], "temperature": 0}


def words():
    return " ".join(f"{random.randrange(16**5):05x}" for _ in range(CHAT_WORDS))


def rendered(client, url, route, body):
    """The tokens that a render pod, or an engine, makes of a request."""
    answer = client.post(f"{url}/v1/{route}/render", body)
    return (answer[0] if isinstance(answer, list) else answer)["token_ids"]


def said(client, url, route, body):
    """(text, prompt tokens) of an answer."""
    answer = client.post(f"{url}/v1/{route}", body)
    choice = answer["choices"][0]
    return choice.get("text") or (choice.get("message") or {}).get("content"), answer["usage"]["prompt_tokens"]


def way_to_ask(client, plan):
    """(route, body of a text): chats where the model has a template, else plain text."""
    try:
        rendered(client, plan["reference"], "chat/completions", chat_body(plan, words()))
        return "chat/completions", chat_body
    except CannotMeasure:
        return "completions", text_body


def check_render(client, plan):
    """Whether every render pod makes the same tokens of a prompt as an engine, and whether answers through
    the router are an engine's own. Returns {pods: [{name, equal, error}], answers: [{router, engine,
    router_tokens, engine_tokens}], error}."""
    result = {"pods": [], "answers": [], "error": None}
    try:
        route, body = way_to_ask(client, plan)
        asked = body(plan, words())
        wanted = rendered(client, plan["reference"], route, asked)
    except CannotMeasure as error:
        return result | {"error": str(error)}
    for pod in plan["render"]:
        try:
            equal = rendered(client, pod["url"], route, asked) == wanted
            result["pods"].append({"name": pod["name"], "equal": equal, "error": None})
        except CannotMeasure as error:
            result["pods"].append({"name": pod["name"], "equal": False, "error": str(error)})
    try:
        for _ in range(ANSWERS):
            asked = body(plan, words())
            router, router_tokens = said(client, plan["router"], route, asked)
            engine, engine_tokens = said(client, plan["reference"], route, asked)
            result["answers"].append({"router": router, "engine": engine, "router_tokens": router_tokens,
                                      "engine_tokens": engine_tokens})  # fmt: skip
    except CannotMeasure as error:
        result["error"] = str(error)
    return result


def picture(size=IMAGE_PIXELS):
    """A PNG of random colours as a data URL: no cache can hold any of it. PNG specification, third edition, 5 and
    11.2: 8 bits a sample, truecolour, no filter."""

    def chunk(kind, content):
        check = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

    rows = b"".join(b"\0" + random.randbytes(3 * size) for _ in range(size))
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + content).decode()


def image_body(plan, url):
    body = chat_body(plan, "What is shown?")
    image = {"type": "image_url", "image_url": {"url": url}}
    body["messages"][0]["content"] = [image, {"type": "text", "text": "What is shown?"}]
    return body


def shown(client, plan, url):
    """What the render tier makes of a chat about an image: {token_ids, features, ...}."""
    made = client.post(f"{plan['render'][0]['url']}/v1/chat/completions/render", image_body(plan, url))
    hashes = ((made.get("features") or {}).get("mm_hashes") or {}).get("image") or []
    if len(hashes) != 1:
        raise CannotMeasure(f"the render tier made {len(hashes)} images of one")
    return made


def named(plan, made, name, pixels):
    """The engine's request for a rendered chat, its image under another name and with the `pixels` of another."""
    features = {**made["features"], "mm_hashes": {"image": [name]}, "kwargs_data": pixels["features"]["kwargs_data"]}
    sampling = {"temperature": 0, "max_tokens": plan["answer_tokens"], "ignore_eos": True}
    return {"model": plan["model"], "token_ids": made["token_ids"], "features": features, "sampling_params": sampling}


def encoded(client, plan, url, made, name):
    """Have an encoder encode the image under a name. Returns what it says of it."""
    place = made["features"]["mm_placeholders"]["image"][0]
    begin, end = place["offset"], place["offset"] + place["length"]
    body = named(plan, made, name, made)
    body["token_ids"] = made["token_ids"][begin:end]
    body["features"]["mm_placeholders"] = {"image": [{"offset": 0, "length": place["length"]}]}
    body["sampling_params"] = {"temperature": 0, "max_tokens": 1}
    params = client.post(f"{url}/inference/v1/generate", body).get("ec_transfer_params") or {}
    if name not in params:
        raise CannotMeasure(f"{url} encoded an image and named no embedding")
    return params


def generated(client, url, body):
    return client.post(f"{url}/inference/v1/generate", body)["choices"][0]["token_ids"]


def embedding_sample(client, plan, encoder, engine):
    """Whether an engine takes an image's embedding from the encoder. It is given the image's name with the pixels
    of another image: `moved` is its answer, `own` that to the image by its own encoder, `decoy` that to the other.
    Every name is used once: neither side has anything of it in a cache."""
    image, other = shown(client, plan, picture()), shown(client, plan, picture())
    name = random.randbytes(32).hex()
    params = encoded(client, plan, encoder["url"], image, name)
    asked = named(plan, image, name, other) | {"ec_transfer_params": params}
    moved = generated(client, engine["url"], asked)
    own = generated(client, engine["url"], named(plan, image, random.randbytes(32).hex(), image))
    decoy = generated(client, engine["url"], named(plan, image, random.randbytes(32).hex(), other))
    return {"moved": moved, "own": own, "decoy": decoy}


def served(client, encoders):
    """Requests that the encoders have ended well."""
    return sum(total(page(client, url), "vllm:request_success_total") or 0 for url in encoders)


def through_gateway(client, plan, result):
    """Ask about images through the release's own router, and an engine about the same."""
    encoders = sorted({encoder["url"] for encoder, _ in plan["embeddings"]})
    before = served(client, encoders)
    for _ in range(ANSWERS):
        body = image_body(plan, picture())
        router, _ = said(client, plan["router"], "chat/completions", body)
        engine, _ = said(client, plan["reference"], "chat/completions", body)
        result["answers"].append({"router": router, "engine": engine})
    deadline = time.monotonic() + SETTLE_LIMIT_S
    while served(client, encoders) - before < ANSWERS and time.monotonic() < deadline:
        time.sleep(0.05)
    result["encoded"] = served(client, encoders) - before


def check_encoder(client, plan):
    """Whether embeddings come from every encoder to every engine that loads them, and whether the router asks
    encoders. Returns {pairs: [{encoder, consumer, samples, error}], answers: [{router, engine}], encoded, error,
    router_error}: `error` says why images can't be asked about at all."""
    result = {"pairs": [], "answers": [], "encoded": 0, "error": None, "router_error": None}
    try:
        shown(client, plan, picture())
    except CannotMeasure as error:
        return result | {"error": str(error)}
    for encoder, engine in plan["embeddings"]:
        pair = {"encoder": encoder["name"], "consumer": engine["name"], "samples": [], "error": None}
        result["pairs"].append(pair)
        try:
            for _ in range(ANSWERS):
                pair["samples"].append(embedding_sample(client, plan, encoder, engine))
        except CannotMeasure as error:
            pair["error"] = str(error)
    try:
        through_gateway(client, plan, result)
    except CannotMeasure as error:
        result["router_error"] = str(error)
    return result


def probe(plan, client=None):
    """Warm up, measure fresh, age, measure again, and ask router, render tier and encoder tier; by a client of one's own,
    or by the plan's limit and the environment's key."""
    key = os.environ.get(ROUTER_KEY_VARIABLE, "").partition("\n")[0].strip()
    client = client or Client(plan["request_limit_s"], key)
    results = [
        {"prefill": p["name"], "decode": d["name"], "fresh": [], "aged": [], "error": None, "failed": 0}
        for p, d in plan["pairs"]
    ]
    evidence = {"pairs": results, "router": None, "render": None, "encoder": None, "ageing": None, "seconds": {}}
    started, warm, still = time.monotonic(), set(), set()
    for result, pair in zip(results, plan["pairs"], strict=True):
        try:
            warm_up(client, plan, pair, warm)
        except CannotMeasure as error:
            result["error"] = str(error)
            result["failed"] = failed_transfers(client, plan, pair)
    measure_pairs(client, plan, results, "fresh", still)
    if plan["router"]:
        evidence["router"] = through_router(client, plan)
    if plan["render"]:
        evidence["render"] = check_render(client, plan)
    if plan.get("embeddings"):
        evidence["encoder"] = check_encoder(client, plan)
    evidence["seconds"]["fresh"] = time.monotonic() - started
    measurable = [p for r, p in zip(results, plan["pairs"], strict=True) if r["error"] is None and moved(r)]
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
