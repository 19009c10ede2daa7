"""The encoder tier: what it needs of the model, of the tiers behind it, and of what carries embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from components.nodes.names import GPU_RESOURCE
from components.serving.encoder_connectors.profiles import PROFILES
from components.serving.spec import TIERS
from infra.plan import Plan
from infra.rules.connector import gib
from infra.rules.parity import flag_values
from infra.rules.rule import Finding, rule

ENCODER_CONFIGS = ("vision_config", "audio_config", "thinker_config", "vit_config", "sound_config", "perception_config")
"""Where a `config.json` describes what embeds images or sounds (transformers' model configurations)."""
EC_FLAG = "--ec-transfer-config"


def has_encoder(config: Mapping[str, Any]) -> bool:
    """Whether a model's `config.json` describes an encoder of images or sounds beside a language model."""
    return any(isinstance(config.get(key), Mapping) for key in ENCODER_CONFIGS)


def _wanted(plan: Plan) -> bool:
    return plan.settings.encoder.replicas > 0


def _consumer(plan: Plan) -> str:
    return TIERS[plan.settings.topology][0]


@rule("encoder-for-the-model", "error", "An encoder tier stands before a model that has an encoder.",
      "vllm 0.32 config/vllm.py _resolve_mm_encoder_only: \"An EC producer-only instance requires a multimodal "
      "model.\"")  # fmt: skip
def encoder_for_the_model(plan: Plan) -> Iterator[Finding]:
    if not _wanted(plan) or not plan.config:
        return
    kind = str(plan.config.get("model_type", "unknown"))
    if plan.config.get("is_encoder_decoder"):
        yield Finding("encoder.replicas", f"{plan.settings.encoder.replicas}, with an encoder-decoder model ({kind})",
                      "a language model that is given embeddings", "set encoder.replicas: 0")  # fmt: skip
    elif not has_encoder(plan.config):
        yield Finding("encoder.replicas", f"{plan.settings.encoder.replicas}, with a text model ({kind})",
                      f"a config.json with one of {', '.join(ENCODER_CONFIGS)}",
                      "serve a multimodal model, or set encoder.replicas: 0")  # fmt: skip


@rule("encoder-needs-gateway", "error", "The gateway routes where there is an encoder tier.",
      "splitserve: the gateway asks encoders before engines, and it stands before a render tier; vllm-router 0.1.17 "
      "has no encode step")  # fmt: skip
def encoder_needs_gateway(plan: Plan) -> Iterator[Finding]:
    if _wanted(plan) and not plan.settings.render.replicas:
        yield Finding("render.replicas", "0, with an encoder tier", "1 or more",
                      "a render tier brings the gateway, which asks the encoders; or set encoder.replicas: 0")  # fmt: skip


@rule("encoder-settings-used", "error", "Settings of an encoder tier, and of its connector, are ones that hold.",
      "splitserve: what would be ignored is refused")  # fmt: skip
def encoder_settings_used(plan: Plan) -> Iterator[Finding]:
    encoder = plan.settings.encoder
    if not encoder.replicas:
        if encoder.model_fields_set - {"replicas"}:
            yield Finding("encoder", "settings, with 0 replicas", "encoder.replicas of 1 or more", "or leave them out")
        return
    unused = ("folder", "reuse_s") if encoder.connector == "nixl" else ("cpu_gib", "side_channel_port")
    names = {"folder": "folder", "reuse_s": "reuseS", "cpu_gib": "cpuGib", "side_channel_port": "sideChannelPort"}
    for field in unused:
        if field in encoder.model_fields_set:
            yield Finding(f"encoder.{names[field]}", f"set, with connector {encoder.connector}", "nothing",
                          "leave it out, or take the other connector")  # fmt: skip


@rule("encoder-folder", "error", "A shared folder is one that all pods of the encoder and the engines reach.",
      "vllm 0.32 distributed/ec_transfer/ec_connector/example_connector.py: shared_storage_path")  # fmt: skip
def encoder_folder(plan: Plan) -> Iterator[Finding]:
    encoder, platform = plan.settings.encoder, plan.settings.platform
    if not _wanted(plan) or encoder.connector != "folder":
        return
    if encoder.folder is None:
        yield Finding("encoder.folder", "nothing, with connector folder", "claim or node",
                      "name a ReadWriteMany claim; on a cluster of one node, a folder of it")  # fmt: skip
    elif encoder.folder.node and platform.kind == "aws":
        yield Finding("encoder.folder.node", encoder.folder.node, "encoder.folder.claim on AWS",
                      "pods of other nodes see another folder; name a ReadWriteMany claim")  # fmt: skip
    elif encoder.folder.node and not encoder.folder.node.startswith("/"):
        yield Finding("encoder.folder.node", encoder.folder.node, "an absolute path of the node")


@rule("encoder-connector-runs", "error", "The encoder connector works on the platform's devices.",
      "vllm 0.32 ec_connector/cpu/connector.py: ECCPUConnector requires Model Runner V2; config/vllm.py:3190: it "
      "requires Triton, which has no CPU backend")  # fmt: skip
def encoder_connector_runs(plan: Plan) -> Iterator[Finding]:
    name = plan.settings.encoder.connector
    if _wanted(plan) and plan.settings.platform.kind == "local" and not PROFILES[name].on_cpu:
        able = ", ".join(profile.name for profile in PROFILES.values() if profile.on_cpu)
        yield Finding("encoder.connector", f"{name} on CPUs", able, "the local platform runs vLLM on CPUs")


@rule("encoder-shm", "error", "/dev/shm and memory hold the embeddings of the connector nixl on both sides.",
      "vllm 0.32 ec_connector/cpu/ec_shared_region.py: a file of ec_cpu_bytes in /dev/shm")  # fmt: skip
def encoder_shm(plan: Plan) -> Iterator[Finding]:
    settings, encoder = plan.settings, plan.settings.encoder
    if not _wanted(plan) or encoder.connector != "nixl":
        return
    sides = {"encoder": encoder.resources or settings.engine.resources,
             _consumer(plan): settings.resources_of(_consumer(plan))}  # fmt: skip
    for tier, resources in sides.items():
        for field in ("shm", "memory"):
            held = gib(getattr(resources, field))
            if held is not None and held <= encoder.cpu_gib:
                yield Finding(f"{tier}.resources.{field}", getattr(resources, field),
                              f"more than {encoder.cpu_gib:g}Gi, which encoder.cpuGib takes")  # fmt: skip


@rule("encoder-gpus", "error", "An encoder asks for one GPU, and the nodes hold encoders beside the engines.",
      "splitserve: encoders are started without parallelism, on the nodes of the tier that loads the embeddings; "
      "pods that can't be scheduled wait for ever")  # fmt: skip
def encoder_gpus(plan: Plan) -> Iterator[Finding]:
    settings, encoder, consumer = plan.settings, plan.settings.encoder, _consumer(plan)
    hardware = plan.hardware[consumer]
    if not _wanted(plan) or hardware is None:
        return
    asked = (encoder.resources or settings.engine.resources).extended.get(GPU_RESOURCE, 0)
    if asked != 1:
        yield Finding(f"encoder.resources.extended.{GPU_RESOURCE}", f"{asked}", "1",
                      "set encoder.resources: the engines' hold otherwise")  # fmt: skip
        return
    beside = settings.tiers if settings.hardware else [consumer]
    engines = {tier: settings.engine_of(tier).parallel for tier in beside}
    taken = sum(settings.tiers[tier].replicas * p.tensor * p.pipeline * p.data for tier, p in engines.items())
    if taken + encoder.replicas > hardware.gpus:
        yield Finding("encoder.replicas", f"{encoder.replicas} beside engines on {taken} of {hardware.gpus} GPUs",
                      f"at most {max(hardware.gpus - taken, 0)}", "fewer replicas or more nodes")  # fmt: skip


@rule("encoder-image", "error", "Encoders run the engines' image.",
      "vllm 0.32 ec_connector/cpu/protocol.py compute_ec_compatibility_hash: the version is in it")  # fmt: skip
def encoder_image(plan: Plan) -> Iterator[Finding]:
    s = plan.settings
    if _wanted(plan) and s.encoder.image and s.encoder.image != s.image:
        yield Finding("encoder.image", s.encoder.image, f"{s.image}, the engines'", "leave it out")


@rule("encoder-config-holds", "error", "Extra arguments don't replace what the encoder tier is told of embeddings.",
      "vLLM takes the last of two equal arguments")  # fmt: skip
def encoder_config_holds(plan: Plan) -> Iterator[Finding]:
    if not _wanted(plan):
        return
    given = {
        "encoder": plan.settings.encoder.extra_args,
        _consumer(plan): plan.settings.tiers[_consumer(plan)].extra_args,
    }
    for tier, arguments in given.items():
        if EC_FLAG in flag_values(arguments):
            yield Finding(f"{tier}.extraArgs", f"`{EC_FLAG}` beside an encoder tier", "one of the two",
                          "leave the argument out: encoder.connector makes it")  # fmt: skip
