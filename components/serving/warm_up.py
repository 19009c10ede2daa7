"""A pod's start-up probe: wait for vLLM's port, then have one plain request answered. Standard library.

Usage: warm_up.py PORT MODEL LIMIT_S (in a pod its source is the argument of `python3 -c`). Exit code 0: the
engine has answered. An engine whose port is open has loaded its weights; this one has computed with them.
It comes before any traffic, for a second reason: vLLM 0.32 on a CPU with AMX ends with an illegal
instruction when its very first batch is a few tokens, as a decoder's is after a transfer
(docs/explanation/gate.md). So the prompt is long.

It waits by itself: to start it once every two seconds would cost a small machine more than the engine.
"""

import json
import os
import sys
import time
import urllib.request

POLL_S = 1
REQUEST_LIMIT_S = 60
PROMPT = "Answer in a few words. " * 20


def answered(port, model):
    """Whether a request is answered; raises OSError while nothing listens."""
    base = f"http://127.0.0.1:{port}"
    urllib.request.urlopen(f"{base}/health", timeout=5).close()
    body = {"model": model, "prompt": PROMPT, "max_tokens": 2, "temperature": 0}
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("VLLM_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(f"{base}/v1/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=REQUEST_LIMIT_S) as reply:
        return "text" in json.load(reply)["choices"][0]


def wait(port, model, limit_s):
    """Try until the engine has answered. Returns the last reason why it has not, or None."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            if answered(port, model):
                return None
            reason = "an answer without text"
        except Exception as error:
            reason = str(error)
        if time.monotonic() > deadline:
            return reason
        time.sleep(POLL_S)


if __name__ == "__main__":
    if reason := wait(sys.argv[1], sys.argv[2], float(sys.argv[3])):
        sys.exit(f"no answer: {reason}")
