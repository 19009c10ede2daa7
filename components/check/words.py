"""The way out of each cause, for engines that are not ours: the verdict's own words name stack files. Pure."""

from __future__ import annotations

FIXES = {
    "no-pairs": "give at least one --prefill and one --decode URL",
    "pod-ended": "read that engine's log: its last lines say why it ended; then check again. Where the URL is a "
    "forwarded port, see whether the forward ended instead",
    "pod-deleted": "somebody or something deleted it: a rollout, a scale-down, a drained node. Check again when the pods are "
    "those that will serve; nothing was judged",
    "pair-unmeasured": "remove what the message names, and check again: nothing was judged",
    "never-disaggregated": "give both tiers the connector (`--kv-transfer-config`), and see that nothing overrides it on "
    "the decode tier; are --prefill and --decode the right way round?",
    "failed-transfers": "read the decoder's log for the handshake: vLLM's version, model name, dtype and block size must "
    "be the same on both tiers, and port and side channel reachable",
    "prefill-not-served": "give the prefiller's own URL: another engine answers at this one",
    "unmeasurable": "judge by what arrived and was answered alone: --accept-content-only; or read the transfers from a "
    "log, where the connector writes them: --decode-log FILE",
    "wrong-bytes": "part of the prompt was computed again, or the KV cache has another dtype or layout than --model-config "
    "says: compare with the engines' `--dtype`, `--kv-cache-dtype` (here --dtype) and tensor parallelism "
    "(here --tensor-parallel)",
    "wrong-answer": "the KV cache arrives damaged: both tiers must run the same version and attention backend; compare "
    "with another transport",
    "slow-link": "the KV cache takes a slow path: on one host check peer access (`nvidia-smi topo -p2p r`), between hosts "
    "the RDMA devices and the connector's `backends`; or give shorter --prompt-tokens if the link is as fast as it can be. A cache "
    "that had aged before the check looks the same: with many descriptors of few bytes raise vLLM's `--block-size`",
    "fragmented-cache": "raise vLLM's `--block-size` on both tiers: fewer, larger pieces for the same bytes",
    "router-failed": "read the router's log; it must know the engines that were given",
    "router-not-disaggregated": "the router sends requests to one tier only, or to a decoder that was not given: check its "
    "arguments, and give every decoder's URL",
}


def way_out(cause: str, own: str) -> str:
    """The way out of a cause; the verdict's own words where they fit any deployment."""
    return FIXES.get(cause, own)
