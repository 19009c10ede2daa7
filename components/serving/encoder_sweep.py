"""Clear away the embeddings that no engine can ask for any more. Standard library.

Usage: encoder_sweep.py FOLDER KEEP_S (in a pod its source is the argument of `python3 -c`). In FOLDER lies a
folder a release, and in that one an item. The gateway asks for an item under one name for a limited time only, so
whatever is older than KEEP_S has no reader, and no writer: an engine that looked for a file and then missed it
would end.
"""

import os
import shutil
import sys
import time

SHORTEST_PERIOD_S = 1.0


def sweep(folder, keep_s, now):
    """Remove items older than `keep_s` seconds. Returns how many; whoever else removes one is welcome to it."""
    removed = 0
    for release in _folders(folder):
        for item in _folders(release.path):
            try:
                old = now - max(item.stat().st_mtime, _newest(item.path)) > keep_s
            except OSError:
                continue
            if old:
                shutil.rmtree(item.path, ignore_errors=True)
                removed += 1
    return removed


def _folders(path):
    try:
        with os.scandir(path) as found:
            return [entry for entry in found if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _newest(path):
    with os.scandir(path) as found:
        return max((entry.stat(follow_symlinks=False).st_mtime for entry in found), default=0.0)


if __name__ == "__main__":
    keep_s = float(sys.argv[2])
    while True:
        sweep(sys.argv[1], keep_s, time.time())
        time.sleep(max(keep_s / 10, SHORTEST_PERIOD_S))
