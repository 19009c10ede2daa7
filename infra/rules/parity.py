"""What prefill and decode must have in common, or the KV cache of one means nothing to the other.

NIXL compares most of it in its handshake (vllm 0.32 NIXL `metadata.py`), which is when a user would
otherwise hear of it: as failed requests.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pydantic.alias_generators import to_camel

from infra.plan import Plan
from infra.rules.rule import Finding, rule

HASHED = "vllm 0.32 NIXL metadata.py: compatibility hash"
COMPARED_FIELDS = ("dtype", "kv_cache_dtype", "max_model_len", "attention_backend")
COMPARED_FLAGS = ("--dtype", "--kv-cache-dtype", "--block-size", "--max-model-len", "--attention-backend", "--revision",
                  "--quantization", "--speculative-config", "--served-model-name")  # fmt: skip


def _split(plan: Plan) -> bool:
    return plan.settings.topology == "prefill-decode"


def _pair(plan: Plan, field: str) -> tuple[Any, Any]:
    return tuple(getattr(plan.settings.engine_of(tier), field) for tier in ("prefill", "decode"))  # pyright: ignore[reportReturnType]


def flag_values(arguments: list[str]) -> dict[str, str]:
    """`--name value` and `--name=value` of an argument list; a flag without a value is "true".

    vLLM takes `--block_size` for `--block-size` (vllm 0.32 `utils/argparse_utils.py`), and so is it told here.
    """
    found: dict[str, str] = {}
    for place, argument in enumerate(arguments):
        if not argument.startswith("--"):
            continue
        name, equals, value = argument.partition("=")
        following = arguments[place + 1] if place + 1 < len(arguments) else "--"
        found[name.replace("_", "-")] = value if equals else "true" if following.startswith("--") else following
    return found


@rule("parity-engine", "error", "Prefill and decode have the same dtype, KV dtype, length and attention backend.",
      HASHED)  # fmt: skip
def engine(plan: Plan) -> Iterator[Finding]:
    if not _split(plan):
        return
    for field in COMPARED_FIELDS:
        left, right = _pair(plan, field)
        if left != right:
            key = to_camel(field)
            keys = f"prefill.engine.{key} and decode.engine.{key}"
            yield Finding(keys, f"{left} and {right}", "the same in both", f"set it once as engine.{key}")


@rule("parity-image", "error", "Prefill and decode run the same image.",
      "https://github.com/vllm-project/vllm/pull/29503; the hash holds vLLM's version")  # fmt: skip
def image(plan: Plan) -> Iterator[Finding]:
    s = plan.settings
    left, right = s.prefill.image or s.image, s.decode.image or s.image
    if _split(plan) and left != right:
        yield Finding("prefill.image and decode.image", f"{left} and {right}", "the same in both", "set `image` once")


@rule("parity-arguments", "error", "Extra arguments that the handshake compares are the same on both sides.",
      "https://github.com/vllm-project/vllm/pull/29503")  # fmt: skip
def arguments(plan: Plan) -> Iterator[Finding]:
    if not _split(plan):
        return
    left, right = (flag_values(t.extra_args) for t in (plan.settings.prefill, plan.settings.decode))
    for flag in COMPARED_FLAGS:
        if left.get(flag) != right.get(flag):
            found = f"`{flag}` {left.get(flag, 'not given')} and {right.get(flag, 'not given')}"
            yield Finding("prefill.extraArgs and decode.extraArgs", found, "the same in both", "give it to both tiers")


@rule("parity-connector-options", "error", "The connector's options that shape the cache are the same on both sides.",
      "https://github.com/ai-dynamo/dynamo/issues/10027: enable_cross_layers_blocks")  # fmt: skip
def connector_options(plan: Plan) -> Iterator[Finding]:
    s, key = plan.settings, "enable_cross_layers_blocks"
    left, right = s.prefill.connector_options.get(key), s.decode.connector_options.get(key)
    if _split(plan) and left != right:
        keys = f"prefill.connectorOptions.{key} and decode.connectorOptions.{key}"
        yield Finding(keys, f"{left} and {right}", "the same in both", f"set it once as connector.options.{key}")


@rule("block-size-direction", "error", "Both tiers have one block size.",
      "vllm 0.32 NIXL base_worker.py: prefill may be smaller, not with host buffers nor with fewer decode ranks; "
      "one size is what is measured here")  # fmt: skip
def block_size(plan: Plan) -> Iterator[Finding]:
    left, right = _pair(plan, "block_size") if _split(plan) else (0, 0)
    if left != right:
        yield Finding("prefill.engine.blockSize and decode.engine.blockSize", f"{left} and {right}",
                      "the same in both", "set it once as engine.blockSize")  # fmt: skip


@rule("tp-direction", "error", "Decode has at least as many ranks as prefill, a multiple of them.",
      "llm-d docs/operations/disaggregation/vllm.md; vllm 0.32 NIXL base_worker.py")  # fmt: skip
def tp_direction(plan: Plan) -> Iterator[Finding]:
    if not _split(plan) or (plan.geometry and plan.geometry.is_latent):
        return
    left, right = (p.tensor for p in _pair(plan, "parallel"))
    if left > right or right % left:
        yield Finding(
            "prefill.engine.parallel.tensor and decode.engine.parallel.tensor", f"{left} and {right}",
            "decode's a multiple of prefill's", "vLLM's NIXL asserts this for every model without latent attention",
        )  # fmt: skip


@rule("tp-splits-heads", "error", "The model's heads can be split over a tier's GPUs.",
      "vllm 0.32 model_executor/layers/linear.py: heads a multiple of ranks or the reverse")  # fmt: skip
def tp_splits_heads(plan: Plan) -> Iterator[Finding]:
    for tier in plan.settings.tiers:
        tp = plan.settings.engine_of(tier).parallel.tensor
        for fault in plan.geometry.tp_faults(tp) if plan.geometry else []:
            yield Finding(f"{tier}.engine.parallel.tensor", f"{tp}", "a number that divides the heads", fault)


@rule("decode-pipeline", "error", "The decode tier has no pipeline stages.",
      "vllm 0.32 NIXL base_worker.py: kv_consumer with pipeline parallelism is not implemented")  # fmt: skip
def decode_pipeline(plan: Plan) -> Iterator[Finding]:
    if _split(plan) and (stages := plan.settings.engine_of("decode").parallel.pipeline) > 1:
        yield Finding("decode.engine.parallel.pipeline", f"{stages}", "1", "use tensor or data parallelism")


@rule("hybrid-equal-tp", "error", "A model with states has the same ranks on both sides.",
      "vllm 0.32 docs/features/nixl_connector_compatibility.md: hybrid SSM needs equal TP")  # fmt: skip
def hybrid_tp(plan: Plan) -> Iterator[Finding]:
    if not _split(plan) or not plan.geometry or not plan.geometry.has_state:
        return
    left, right = (p.tensor for p in _pair(plan, "parallel"))
    if left != right:
        yield Finding("prefill.engine.parallel.tensor and decode.engine.parallel.tensor", f"{left} and {right}",
                      "the same in both for a model with Mamba or linear attention layers")  # fmt: skip


@rule("hybrid-state-layout", "error", "A model with states keeps them in the layout that NIXL can move.",
      "vllm 0.32 NIXL base_worker.py asserts VLLM_SSM_CONV_STATE_LAYOUT=DS")  # fmt: skip
def hybrid_layout(plan: Plan) -> Iterator[Finding]:
    if not _split(plan) or not plan.geometry or not plan.geometry.has_state:
        return
    for tier, settings in plan.settings.tiers.items():
        environment = {**plan.settings.engine.environment, **settings.environment}
        found = environment.get("VLLM_SSM_CONV_STATE_LAYOUT")
        if found != "DS":
            yield Finding(f"{tier}.environment.VLLM_SSM_CONV_STATE_LAYOUT", f"{found or 'not set'}", "DS",
                          "set it once under engine.environment")  # fmt: skip


@rule("hybrid-block-size", "error", "A block of a model with states holds as much as the states of a layer.",
      "vllm 0.32 platforms/interface.py: it enlarges smaller blocks by itself, and more moves than the gate expects")  # fmt: skip
def hybrid_block_size(plan: Plan) -> Iterator[Finding]:
    if not _split(plan) or not plan.geometry or not plan.geometry.has_state:
        return
    # One block size and one number of ranks are demanded of both tiers elsewhere.
    engine = plan.settings.engine_of("decode")
    least = plan.geometry.least_block_size(plan.kv_dtype(engine), engine.parallel.tensor)
    if engine.block_size < least:
        wanted = 32 * math.ceil(least / 32)
        yield Finding("engine.blockSize", f"{engine.block_size}", f"{wanted} or more for this model",
                      f"a layer's states fill {least} tokens of attention")  # fmt: skip


@rule("attention-backend-across-gpus", "error", "Tiers on different GPUs name their attention backend.",
      "vllm 0.32 NIXL metadata.py: the backend's name is hashed, and it is chosen by GPU")  # fmt: skip
def backend_across_gpus(plan: Plan) -> Iterator[Finding]:
    if not _split(plan):
        return
    left, right = plan.hardware["prefill"], plan.hardware["decode"]
    if left and right and left.gpu != right.gpu and not plan.settings.engine_of("decode").attention_backend:
        yield Finding("engine.attentionBackend", f"not set, with {left.gpu} and {right.gpu}", "one for both",
                      "for example FLASH_ATTN")  # fmt: skip


@rule("context-parallel", "error", "A decode context parallel size divides its ranks and is prefill's too.",
      "vllm 0.32 NIXL base_worker.py: decode context parallel sizes must divide")  # fmt: skip
def context_parallel(plan: Plan) -> Iterator[Finding]:
    if not _split(plan):
        return
    left, right = (flag_values(t.extra_args).get("--decode-context-parallel-size", "1")
                   for t in (plan.settings.prefill, plan.settings.decode))  # fmt: skip
    if not (left.isdigit() and right.isdigit() and int(left) > 0 and int(right) % int(left) == 0):
        yield Finding("prefill.extraArgs and decode.extraArgs", f"--decode-context-parallel-size {left} and {right}",
                      "decode's a multiple of prefill's")  # fmt: skip
