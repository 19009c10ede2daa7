"""A pod's start-up probe: one plain request that has to be answered. Standard library alone.

Usage: warm_up.py PORT MODEL (in a pod its source is the argument of `python3 -c`). Exit code 0: the engine
has answered. An engine whose port is open has loaded its weights; this one has computed with them. It
comes before any traffic, for a second reason: vLLM 0.32 on a CPU with AMX ends with an illegal instruction
when its very first batch is a few tokens, as a decoder's is after a transfer (docs/explanation/gate.md).
So the prompt is long.
"""

import json
import os
import sys
import urllib.request

LIMIT_S = 60
PROMPT = "Answer in a few words. " * 20


def warm_up(port, model):
    body = {"model": model, "prompt": PROMPT, "max_tokens": 2, "temperature": 0}
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("VLLM_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    url = f"http://127.0.0.1:{port}/v1/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=LIMIT_S) as reply:
        json.load(reply)["choices"][0]["text"]


if __name__ == "__main__":
    try:
        warm_up(sys.argv[1], sys.argv[2])
    except Exception as error:
        sys.exit(f"no answer yet: {error}")
