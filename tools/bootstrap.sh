#!/bin/sh
# Make .venv from the lock file. The one step before any Python of ours can run.
# Usage: bootstrap.sh setup     only the Python environment
#        bootstrap.sh machine   also check that this machine can run the one-node cluster
set -eu
cd "$(dirname "$0")/.."

UV_VERSION=0.13.9
OWN_CLUSTER="To use a cluster and a \`pulumi\` of your own, set \`platform.kind: existing\` in a stack file (docs/how-to/use-your-own-cluster.md)."

stop() { echo "error: $1 $OWN_CLUSTER" >&2; exit 1; }

if [ "${1:-setup}" = machine ]; then
    [ "$(uname -s)" = Linux ] || stop "the one-node cluster needs Linux; this is $(uname -s)."
    [ "$(uname -m)" = x86_64 ] || stop "the one-node cluster needs an x86-64 machine; this is $(uname -m)."
    [ "$(id -u)" = 0 ] || stop "the one-node cluster needs root (namespaces, mounts, a network link); you are $(id -un)."
    command -v go >/dev/null || stop "the one-node cluster is compiled with Go 1.24 or newer, and no \`go\` is on PATH."
fi

python=
for candidate in python3.11 python3.12 python3.13 python3; do
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || { echo "error: splitserve needs Python 3.11 or newer, and none is on PATH." >&2; exit 1; }

key=$(cat uv.lock pyproject.toml | sha256sum | cut -c1-16)
[ -f ".venv/ready-$key" ] && exit 0

started=$(date +%s)
if [ ! -x .venv/bin/python ]; then
    "$python" -m venv .venv 2>/dev/null || {
        rm -rf .venv
        apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null
        "$python" -m venv .venv
    }
fi
.venv/bin/python -m pip install --quiet --disable-pip-version-check "uv==$UV_VERSION"
VIRTUAL_ENV="$PWD/.venv" UV_LINK_MODE=copy .venv/bin/uv sync --quiet --frozen --inexact --python .venv/bin/python
touch ".venv/ready-$key"
echo "✓ install the Python environment  $(($(date +%s) - started)) s" >&2
