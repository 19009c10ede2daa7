"""The model: what is known of it, whether it fits, and how long its KV cache travels."""

from __future__ import annotations

from collections.abc import Iterator

from components.hardware.memory import load_s
from infra.plan import START_S, Plan
from infra.rules.rule import Finding, rule

LONGEST_DESCRIPTOR_BLOCK = 128
"""The block size that cures an aged cache; larger ones gain little (docs/measurements)."""
STRETCHING = ("yarn", "linear", "dynamic", "longrope")
"""Rope scalings by which vLLM takes more positions than max_position_embeddings (vllm 0.32
`config/model.py`)."""


@rule("geometry-known", "error", "The model's KV cache is computed from its config.json, or stated.",
      "components/hardware/read_geometry.py")  # fmt: skip
def geometry_known(plan: Plan) -> Iterator[Finding]:
    if plan.geometry is None and plan.config:
        for fault in plan.geometry_faults:
            yield Finding("model", f"a config.json that doesn't tell its KV cache ({fault})",
                          "an architecture that is computed", "or state model.kvBytesPerToken")  # fmt: skip


@rule("length-in-model", "error", "Prompts are no longer than the model's positions.",
      "vLLM refuses a --max-model-len above max_position_embeddings")  # fmt: skip
def length_in_model(plan: Plan) -> Iterator[Finding]:
    longest, engine = plan.geometry.max_positions if plan.geometry else 0, plan.settings.engine
    scaling = plan.config.get("rope_scaling") or {}
    stretched = isinstance(scaling, dict) and scaling.get("rope_type", scaling.get("type")) in STRETCHING
    if longest and engine.max_model_len > longest and not stretched:
        yield Finding("engine.maxModelLen", f"{engine.max_model_len}", f"at most {longest}",
                      "the model's max_position_embeddings")  # fmt: skip


@rule("cache-holds-a-prompt", "error", "The KV cache holds the longest prompt and a block more.",
      "vLLM refuses to start otherwise")  # fmt: skip
def cache_holds_prompt(plan: Plan) -> Iterator[Finding]:
    for tier in plan.settings.tiers:
        engine = plan.settings.engine_of(tier)
        least = -(-engine.max_model_len // engine.block_size) + 1
        if engine.gpu_blocks is not None and engine.gpu_blocks < least:
            yield Finding(
                f"engine.gpuBlocks ({tier})", f"{engine.gpu_blocks}", f"at least {least}",
                f"engine.maxModelLen is {engine.max_model_len}, in blocks of {engine.block_size}",
            )  # fmt: skip


@rule("memory-fit", "error", "Weights and one longest prompt fit the GPUs of an engine.",
      "components/hardware/memory.py; activations are estimated")  # fmt: skip
def memory_fit(plan: Plan) -> Iterator[Finding]:
    for tier in plan.settings.tiers:
        found, engine = plan.fit(tier), plan.settings.engine_of(tier)
        if found is None or found.kv_tokens >= engine.max_model_len:
            continue
        left = max(0.0, found.left_bytes / 1e9)
        yield Finding(
            f"{tier}.engine.parallel.tensor",
            f"{engine.parallel.tensor}: {found.weights_bytes / 1e9:.1f} GB of weights a GPU leave {left:.1f} GB, "
            f"{found.kv_tokens:,} tokens", f"room for engine.maxModelLen {engine.max_model_len:,}",
            "more GPUs an engine, a GPU with more memory, or shorter prompts",
        )  # fmt: skip


@rule("load-limit", "error", "Start-up probes wait as long as the weights take to arrive.",
      "https://github.com/kserve/kserve/issues/5062, https://github.com/vllm-project/production-stack/pull/688")  # fmt: skip
def load_limit(plan: Plan) -> Iterator[Finding]:
    size, s = plan.weights_bytes, plan.settings
    if size is None or plan.settings.platform.kind == "local":
        return
    needed = load_s(size, s.model.arrival_gb_per_s) + START_S
    if plan.load_limit_s < needed:
        yield Finding("engine.loadLimitS", f"{plan.load_limit_s}",
                      f"at least {needed:.0f}: {size / 1e9:.0f} GB at {s.model.arrival_gb_per_s:g} GB/s and {START_S} s to start",
                      "raise it, or state how fast weights arrive as model.loadGbPerS")  # fmt: skip


@rule("transfer-in-limit", "error", "The gate's prompt can reach decode within the limit.",
      "components/hardware/expected.py: the link's rate and the model's geometry")  # fmt: skip
def transfer_in_limit(plan: Plan) -> Iterator[Finding]:
    expected, gate = plan.expected(plan.settings.gate.prompt_tokens), plan.settings.gate
    if expected is None or plan.link is None or expected.fresh_ms < gate.limit_ms:
        return
    moved = expected.transfer
    yield Finding(
        "gate.limitMs", f"{gate.limit_ms:g}",
        f"more than {expected.fresh_ms:.0f} ms: {gate.prompt_tokens:,} tokens are {moved.total_bytes / 1e6:,.0f} MB, "
        f"{moved.rank_bytes / 1e6:,.0f} MB a rank over {plan.link.effective_gb_per_s:.2f} GB/s ({plan.link.name})",
        "a faster link, more ranks, a shorter probe (gate.promptTokens), or stay collocated",
    )  # fmt: skip


@rule("aged-transfer-in-limit", "warning", "The transfer stays within the limit when the cache has aged.",
      "docs/measurements/nvlink-h200.md: each block of each layer becomes a piece of its own")  # fmt: skip
def aged_transfer_in_limit(plan: Plan) -> Iterator[Finding]:
    expected, gate = plan.expected(plan.settings.gate.prompt_tokens), plan.settings.gate
    if expected is None or expected.fresh_ms >= gate.limit_ms or expected.aged_ms < gate.limit_ms:
        return
    size = plan.settings.engine_of("decode").block_size
    yield Finding(
        "engine.blockSize", f"{size}: {expected.fresh_ms:.0f} ms fresh, but {expected.aged_ms:.0f} ms with an aged cache "
        f"({expected.transfer.descriptors_aged:,} pieces)", f"below gate.limitMs {gate.limit_ms:g} when aged, too",
        f"set engine.blockSize: {LONGEST_DESCRIPTOR_BLOCK}" if size < LONGEST_DESCRIPTOR_BLOCK
        else "a shorter probe or more ranks",
    )  # fmt: skip
