"""Runs in the benchmark's pod: the load generator, then its result as one line of the pod's log.

python3 -I -S -c SOURCE RESULT_FILE COMMAND... Standard library only: it runs on whatever image a release
has. Exit code: the generator's own.
"""

import base64
import json
import os
import subprocess
import sys
import zlib

BEGIN, END = "SPLITSERVE-BENCH", "END-OF-BENCH"
KEPT = (
    "duration", "completed", "failed", "input_lens", "output_lens", "ttfts", "itls", "start_times", "errors",
)  # fmt: skip
ERROR_LENGTH = 300
KEY_VARIABLE = "OPENAI_API_KEY"


def packed(result):
    """The parts that are read, microseconds at most, in base64 of zlib: a log line, not a file of megabytes."""
    kept = {key: result[key] for key in KEPT if key in result}
    for key in ("ttfts", "start_times"):
        kept[key] = [round(value, 6) for value in kept.get(key, [])]
    kept["itls"] = [[round(gap, 6) for gap in gaps] for gaps in kept.get("itls", [])]
    kept["errors"] = [last_line(error) for error in kept.get("errors", [])]
    return base64.b64encode(zlib.compress(json.dumps(kept, separators=(",", ":")).encode(), 9)).decode()


def last_line(error):
    """A failed request carries a whole traceback."""
    lines = (error or "").strip().splitlines()
    return lines[-1][-ERROR_LENGTH:] if lines else ""


def environment(own):
    """A Secret may hold several API keys, one a line; a header takes one."""
    lines = [line.strip() for line in own.get(KEY_VARIABLE, "").splitlines()]
    keys = [line for line in lines if line and not line.startswith("#")]
    return {**own, KEY_VARIABLE: keys[0]} if keys else own


def main(result_file, command):
    code = subprocess.run(command, env=environment(dict(os.environ))).returncode
    if code:
        return code
    with open(result_file, encoding="utf-8") as file:
        line = packed(json.load(file))
    print(f"\n{BEGIN} {line} {END}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
