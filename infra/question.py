"""A question about one transfer, asked without a stack file: the same plan and the same rules. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from components.hardware.catalogue import catalogue, dated, instance
from components.hardware.links import PROFILES
from components.hardware.memory import smallest_tp
from components.hardware.model_config import ModelConfig
from infra.plan import Plan
from infra.rules.all_rules import check
from infra.settings import SettingsError, load

ASKED_RULES = ("transfer-in-limit", "aged-transfer-in-limit", "memory-fit", "tp-splits-heads", "geometry-known",
               "efa-backend", "length-in-model", "gpus-enough")  # fmt: skip
"""The rules whose findings answer the question; others need a whole stack file."""
ANSWER_TOKENS = 8


@dataclass(frozen=True)
class Question:
    """One prompt over one link. Exactly one of `instance` and `link` is given; tp None: as few as fit."""

    config: Mapping[str, Any]
    prompt_tokens: int
    instance: str | None
    link: str | None
    tp: int | None
    block_size: int
    dtype: str = "bfloat16"
    kv_cache_dtype: str = "auto"
    limit_ms: float = 100.0
    backend: str = "auto"


def plan_of(question: Question) -> Plan:
    """The smallest plan that asks it. Raises SettingsError and UnknownInstance."""
    if (question.instance is None) == (question.link is None):
        raise SettingsError("question", [
            f"give exactly one of --instance (a type of the {dated()}) and --link ({', '.join(PROFILES)})"])  # fmt: skip
    tp = question.tp or _fitting_tp(question)
    values = {
        "platform": _platform(question, tp),
        "image": "asked",
        "model": {"name": "asked", "huggingFace": {"repository": "asked", "revision": "asked", "config": "asked"}},
        "engine": {
            "dtype": question.dtype,
            "kvCacheDtype": question.kv_cache_dtype,
            "blockSize": question.block_size,
            "maxModelLen": question.prompt_tokens + ANSWER_TOKENS,
            "parallel": {"tensor": tp},
        },
        "connector": {"backend": question.backend},
        "gate": {"limitMs": question.limit_ms, "promptTokens": question.prompt_tokens, "answerTokens": ANSWER_TOKENS},
    }
    return Plan(load(values, "question"), question.config)


def judge_question(question: Question, plan: Plan) -> dict[str, Any]:
    """The answer as JSON: figures that aren't known are None, `ok` too where time is unknown."""
    found = plan.expected(question.prompt_tokens)
    reasons = [str(finding) for finding in check(plan) if finding.rule in ASKED_RULES]
    moved = found.transfer if found else None
    return {
        "kv_bytes": moved.total_bytes if moved else None,
        "descriptors_fresh": moved.descriptors_fresh if moved else None,
        "descriptors_aged": moved.descriptors_aged if moved else None,
        "fresh_ms": round(found.fresh_ms, 2) if found else None,
        "aged_ms": round(found.aged_ms, 2) if found else None,
        "limit_ms": question.limit_ms,
        "ok": not reasons if found else None,
        "reasons": reasons,
        "link": plan.link.name if plan.link else None,
        "tensor_parallel": plan.settings.engine.parallel.tensor,
        "unmeasured": list(found.unmeasured) if found else [],
    }


def _platform(question: Question, tp: int) -> dict[str, Any]:
    if question.instance is None:
        hardware = {"gpu": "any", "gpuMemoryGib": 10**6, "gpusPerNode": tp, "nodes": 2, "link": question.link}
        return {"kind": "existing", "hardware": hardware}
    found = instance(question.instance)
    region = found.regions[0] if found.regions else "us-east-1"
    group = {"instance": question.instance}
    return {"kind": "aws", "aws": {"region": region, "zone": f"{region}a",
                                   "nodeGroups": {"prefill": group, "decode": group}}}  # fmt: skip


def _fitting_tp(question: Question) -> int:
    """As few GPUs of a node as hold the model; all of them where none do, so that the rule says why."""
    known = catalogue().get(question.instance or "")
    plan = plan_of(replace(question, tp=1))
    if known is None or not known.gpu_memory_mib or plan.geometry is None or plan.weights_bytes is None:
        return 1
    kv_dtype = plan.kv_dtype(plan.settings.engine)
    hidden = ModelConfig(question.config).integer("hidden_size", 0, least=0)
    found = smallest_tp(plan.weights_bytes, plan.geometry, known.gpu_memory_mib, known.gpus, kv_dtype, hidden,
                        question.prompt_tokens + ANSWER_TOKENS)  # fmt: skip
    return found or max((tp for tp in (1, 2, 4, 8) if tp <= known.gpus and not plan.geometry.tp_faults(tp)), default=1)
