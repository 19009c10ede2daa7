#!/bin/sh
# On the GPU machine: one measurement beside the unpacked tree (tools/gpu/unpack.py), ended in time, its results in $OUT.
#   tools/gpu/run.sh SECONDS NAME COMMAND...
set -u
limit=$1 name=$2
shift 2
. /tmp/site/env.sh
SPLITSERVE_OUT=/tmp/out/$name
export SPLITSERVE_OUT PYTHONUNBUFFERED=1
mkdir -p "$SPLITSERVE_OUT"
# Interrupted, not killed: then the engines are ended, too.
timeout -s INT -k 30 "$limit" "$@"
code=$?
for file in "$SPLITSERVE_OUT"/*.jsonl; do
  if [ -f "$file" ]; then cp "$file" "$OUT/$name-$(basename "$file")"; fi
done
if [ -d "$SPLITSERVE_OUT/logs" ]; then tar czf "$OUT/$name-logs.tgz" -C "$SPLITSERVE_OUT" logs; fi
exit "$code"
