"""Ask the model one question and print its answer. Standard library alone."""

import json
import os
import urllib.request

LIMIT_S = 120
headers = {"Content-Type": "application/json"}
if key := os.environ.get("LLM_API_KEY"):
    headers["Authorization"] = f"Bearer {key}"
question = {
    "model": os.environ["LLM_MODEL"],
    "messages": [{"role": "user", "content": "Say hello."}],
    "max_tokens": 16,
}
request = urllib.request.Request(
    f"{os.environ['LLM_ENDPOINT']}/v1/chat/completions", json.dumps(question).encode(), headers
)
with urllib.request.urlopen(request, timeout=LIMIT_S) as reply:
    answer = json.load(reply)["choices"][0]["message"]["content"]
print(json.dumps({"release": os.environ["LLM_RELEASE"], "answer": answer}))
