"""The encoder connectors by name, and what pods of either side get from the one that was chosen."""

from __future__ import annotations

import json
from typing import Any

from components.serving.encoder_connectors.folder import FOLDER, MOUNT
from components.serving.encoder_connectors.nixl import NIXL
from components.serving.encoder_connectors.profile import EncoderConnectorProfile, Side
from components.serving.spec import ENCODER, TIERS, EncoderSpec, ServingSpec

PROFILES: dict[str, EncoderConnectorProfile] = {profile.name: profile for profile in (NIXL, FOLDER)}
FIELD = "field:"
VOLUME = "embeddings"


def side_of(serving: ServingSpec, tier: str) -> tuple[Side, EncoderSpec] | None:
    """A tier's side, and the encoder tier; None where it has none: without encoders, and for decoders."""
    if serving.encoder is None:
        return None
    sides: dict[str, Side] = {ENCODER: "producer", TIERS[serving.topology][0]: "consumer"}
    side = sides.get(tier)
    return (side, serving.encoder) if side else None


def encoder_arguments(serving: ServingSpec, tier: str) -> list[str]:
    """vLLM's `--ec-transfer-config` for a tier. A producer that is no consumer runs no language model and has no
    KV cache (vllm 0.32 `config/ec_transfer.py` `is_encode_only`)."""
    if (found := side_of(serving, tier)) is None:
        return []
    side, encoder = found
    profile = PROFILES[encoder.connector]
    config = {
        "ec_connector": profile.vllm_class,
        "ec_role": f"ec_{side}",
        "ec_connector_extra_config": profile.options(encoder),
    }
    return ["--ec-transfer-config", json.dumps(config, sort_keys=True)]


def encoder_environment(serving: ServingSpec, tier: str) -> list[dict[str, Any]]:
    if (found := side_of(serving, tier)) is None:
        return []
    side, encoder = found
    variables = PROFILES[encoder.connector].environment[side]
    return [{"name": name, **_value(value, encoder)} for name, value in variables.items()]


def _value(value: str, encoder: EncoderSpec) -> dict[str, Any]:
    if value.startswith(FIELD):
        return {"valueFrom": {"fieldRef": {"fieldPath": value.removeprefix(FIELD)}}}
    return {"value": str(encoder.side_channel_port) if value == "$port" else value}


def encoder_volumes(serving: ServingSpec, tier: str) -> list[dict[str, Any]]:
    """The shared folder, where the connector has one. ValueError without a folder; the rules say so before."""
    found = side_of(serving, tier)
    if found is None or not PROFILES[found[1].connector].in_folder:
        return []
    folder = found[1].folder
    if folder is None:
        raise ValueError("encoder connector `folder`: no folder is given")
    if folder.claim:
        return [{"name": VOLUME, "persistentVolumeClaim": {"claimName": folder.claim}}]
    return [{"name": VOLUME, "hostPath": {"path": folder.node, "type": "Directory"}}]


def encoder_mounts(serving: ServingSpec, tier: str) -> list[dict[str, Any]]:
    return [{"name": volume["name"], "mountPath": MOUNT} for volume in encoder_volumes(serving, tier)]
