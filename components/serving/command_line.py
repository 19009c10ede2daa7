"""vLLM's arguments as its pods are told them."""

from __future__ import annotations

from collections.abc import Mapping

from components.serving.spec import TIERS, EngineSpec, ServingSpec


def words(arguments: Mapping[str, str]) -> list[str]:
    """Each flag, followed by its value."""
    return [part for pair in arguments.items() for part in pair]


def first_engine(serving: ServingSpec) -> EngineSpec:
    """Of the tier that prompts go to first."""
    return serving.tiers[TIERS[serving.topology][0]].engine


def as_engines(serving: ServingSpec, port: int, own: Mapping[str, str]) -> dict[str, str]:
    """The engines' own words for what decides a prompt and an embedding, for a tier beside them; `own` are the tier's."""
    engine, revision = first_engine(serving), serving.model.source.revision
    return {
        "--served-model-name": serving.model.name,
        "--port": str(port),
        "--dtype": engine.dtype,
        "--max-model-len": str(engine.max_model_len),
        **own,
        **({"--revision": revision} if revision else {}),
    }
