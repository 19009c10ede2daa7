"""What vLLM is told about moving KV cache: the value of `--kv-transfer-config` for each tier."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from components.serving.connectors.chosen import Chosen
from components.serving.connectors.profile import Place
from components.serving.connectors.profiles import PROFILES
from components.serving.spec import EngineTier, ServingSpec


def transfer_config(serving: ServingSpec, tier: EngineTier) -> str | None:
    """The JSON for a tier; None where its connector has nothing to do there.

    `kv_load_failure_policy` is a top-level key: inside `kv_connector_extra_config` vLLM ignores it
    without a word (vllm 0.32 `config/kv_transfer.py`). ValueError where a connector lacks a part that it
    can't do without; the rules say so before.
    """
    place = Place(tier, serving.tiers[tier].engine, serving.connector_backend)
    config = connector_json(chosen_for(serving, tier), place)
    if config is None:
        return None
    return json.dumps({**config, "kv_load_failure_policy": serving.load_failure_policy}, sort_keys=True)


def chosen_for(serving: ServingSpec, tier: EngineTier) -> Chosen:
    """The connector of a tier with its options merged."""
    parts = serving.connector_parts or Chosen(serving.connector)
    # What the stack file says of all tiers is in each tier's options already.
    return replace(parts, name=serving.connector, options={}).with_options(serving.tiers[tier].connector_options)


def connector_json(chosen: Chosen, place: Place) -> dict[str, Any] | None:
    """One connector's configuration; None where it has no role in the tier."""
    profile = PROFILES[chosen.name]
    role = profile.roles.get(place.tier)
    if role is None:
        return None
    config: dict[str, Any] = {"kv_connector": profile.vllm_class, "kv_role": role}
    if chosen.name == "custom":
        config |= _own_class(chosen)
    options = {"connectors": _children(chosen, place)} if chosen.name == "multi" else profile.options(chosen, place)
    return config | ({"kv_connector_extra_config": options} if options else {})


def _own_class(chosen: Chosen) -> dict[str, Any]:
    if not (chosen.module and chosen.class_name):
        raise ValueError("custom: module and className must both be set")
    return {"kv_connector": chosen.class_name, "kv_connector_module_path": chosen.module}


def _children(chosen: Chosen, place: Place) -> list[dict[str, Any]]:
    found = [connector_json(child, place) for child in chosen.inner]
    children = [child for child in found if child is not None]
    if not children or len(children) < len(found):
        raise ValueError(f"multi: no connector inside, or one that has no role in the {place.tier} tier")
    return children
