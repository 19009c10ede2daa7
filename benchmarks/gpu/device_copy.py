"""How fast this machine copies from GPU to GPU, whole and in pieces: the limit that a KV transfer is held against.

`python3 -m benchmarks.gpu.device_copy`. Needs torch and two GPUs. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import statistics
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.gpu.measuring import OUT, said

SIZES_BYTES = (117_440_512, 469_762_048, 939_524_096, 2_684_354_560)
"""2k, 8k and 16k tokens of Qwen2.5-7B, 8k of a 70B."""
PIECES = (1, 1792, 14_336)
"""Of 470 MB: as many as an aged cache has at block 128 and 16."""
ROUNDS = 20


def measure(torch: Any, size_bytes: int, pieces: int) -> dict[str, Any]:
    """Milliseconds of one copy; as many calls as pieces, as a connector posts them."""
    each = size_bytes // pieces
    here = torch.empty(size_bytes, dtype=torch.uint8, device="cuda:0")
    there = torch.empty(size_bytes, dtype=torch.uint8, device="cuda:1")
    views = [(there[i * each : (i + 1) * each], here[i * each : (i + 1) * each]) for i in range(pieces)]
    times = []
    for _ in range(ROUNDS if pieces == 1 else 5):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(0)
        begin.record(torch.cuda.current_stream(0))
        for target, source in views:
            target.copy_(source, non_blocking=True)
        end.record(torch.cuda.current_stream(0))
        end.synchronize()
        times.append(begin.elapsed_time(end))
    median = statistics.median(times[1:])
    return {
        "bytes": size_bytes,
        "pieces": pieces,
        "median_ms": round(median, 4),
        "gb_per_s": round(size_bytes / median / 1e6, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    folder = parser.parse_args().out
    if find_spec("torch") is None:
        raise SystemExit("device_copy: found no torch, wanted it: run where the engines run")
    import torch  # type: ignore[import-not-found]

    if torch.cuda.device_count() < 2:
        raise SystemExit(f"device_copy: found {torch.cuda.device_count()} GPUs, wanted 2")
    rows = [measure(torch, size, 1) for size in SIZES_BYTES]
    rows += [measure(torch, SIZES_BYTES[1], pieces) for pieces in PIECES[1:]]
    said(
        "device_copy",
        folder,
        peer=torch.cuda.can_device_access_peer(0, 1),
        gpu=torch.cuda.get_device_name(0),
        rows=rows,
    )


if __name__ == "__main__":
    main()
