"""The connector's own settings: what vLLM would ignore without a word, or NIXL would do slowly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from components.serving.connectors import flexkv, lmcache, mooncake_store
from components.serving.connectors.chosen import Chosen
from components.serving.connectors.profile import ConnectorProfile, Package
from components.serving.connectors.profiles import (
    PROFILES,
    measurement,
    mover,
    profiles_of,
    requests,
    supports_hybrid,
)
from components.serving.connectors.validated import VALIDATED
from infra.plan import Plan
from infra.rules.parity import flag_values
from infra.rules.rule import Finding, rule

IGNORED_VARIABLES = ("NIXL_BACKEND", "VLLM_NIXL_KVCACHE_BACKEND", "VLLM_NIXL_ABORT_REQUEST_TIMEOUT")
TOP_LEVEL_KEYS = ("kv_load_failure_policy", "kv_role", "kv_buffer_device", "kv_connector")
OFFLOADING = ("offloading", "simple-offloading")
AMD_GPU = re.compile(r"(AMD )?(Instinct )?MI\d", re.IGNORECASE)
STORE_KEYS = {
    "mooncake-store": (mooncake_store.CONFIG_VARIABLE,),
    "lmcache": ("lmcache.remote_url", "LMCACHE_REMOTE_URL", lmcache.CONFIG_VARIABLE),
    "lmcache-mp": ("lmcache.mp.host",),
    "flexkv": (flexkv.CONFIG_VARIABLE,),
}
"""An option or a variable that names a store outside of the pod."""
RENDERED_FLAGS = ("--kv-transfer-config", "--port", "--shutdown-timeout", "--block-size", "--dtype", "--max-model-len",
                  "--served-model-name", "--tensor-parallel-size", "--kv-cache-dtype", "--nnodes", "--node-rank",
                  "--master-addr", "--master-port", "--headless")  # fmt: skip


def _environment(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """(key in the stack file, variable, value) of every engine variable that is set."""
    sets = {"engine": plan.settings.engine.environment}
    sets |= {tier: settings.environment for tier, settings in plan.settings.tiers.items()}
    for section, environment in sets.items():
        for name, value in environment.items():
            yield f"{section}.environment.{name}", name, value


@rule("ignored-variables", "error", "No environment variable is set that vLLM ignores.",
      "https://github.com/aws-samples/awsome-inference/pull/72; vllm 0.32 has none of them")  # fmt: skip
def ignored_variables(plan: Plan) -> Iterator[Finding]:
    for key, name, value in _environment(plan):
        if name in IGNORED_VARIABLES:
            way_out = "connector.backend" if "BACKEND" in name else "connector.options.kv_lease_duration"
            yield Finding(key, f"{value!r}", "no such variable: vLLM ignores it silently", f"use {way_out}")


@rule("side-channel-host", "error", "The side channel listens on, and names, the pod's own address.",
      "https://github.com/vllm-project/vllm/issues/27083; the address bound is the one told to peers")  # fmt: skip
def side_channel_host(plan: Plan) -> Iterator[Finding]:
    for key, name, value in _environment(plan):
        if name in ("VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT"):
            way_out = "leave it out" if name.endswith("HOST") else "set engine.sideChannelPort"
            yield Finding(key, f"{value!r}", "the pod's own address and port, which are set for you", way_out)


@rule("options-at-top-level", "error", "No top-level key of --kv-transfer-config hides among the connector's options.",
      "vllm 0.32 config/kv_transfer.py: extra_config is a free dictionary, unknown keys are ignored")  # fmt: skip
def options_at_top_level(plan: Plan) -> Iterator[Finding]:
    places = _option_places(plan)
    places |= {f"connector.inner.{one.name}.options": one.options for one in plan.settings.connector.inner}
    for place, options in places.items():
        for key in TOP_LEVEL_KEYS:
            if key in options:
                yield Finding(f"{place}.{key}", f"{options[key]!r}", "no such option: vLLM ignores it there",
                              "use connector.loadFailurePolicy" if "failure" in key else "leave it out")  # fmt: skip


@rule("efa-backend", "error", "NIXL moves KV over EFA by LIBFABRIC.",
      "https://github.com/ai-dynamo/nixl/issues/909, https://github.com/ai-dynamo/dynamo/issues/4185: UCX on EFA is "
      "software emulation, 0.3 GB/s")  # fmt: skip
def efa_backend(plan: Plan) -> Iterator[Finding]:
    nixl = any(part.name.startswith("nixl") for part in _chosen(plan).parts)
    if plan.on_efa and nixl and plan.backend != "LIBFABRIC":
        yield Finding("connector.backend", plan.backend, "LIBFABRIC on EFA", "leave it at `auto`")


@rule("efa-image", "error", "An image on EFA nodes holds the EFA installer's libfabric.",
      "NIXL's LIBFABRIC plugin needs the system's libfabric, which vllm/vllm-openai lacks (Dynamo efa.md)")  # fmt: skip
def efa_image(plan: Plan) -> Iterator[Finding]:
    s = plan.settings
    stock = bool(s.image and re.match(r"(docker\.io/)?vllm/vllm-openai[:@]", s.image))
    if plan.on_efa and (s.image_contents.efa is False or (stock and s.image_contents.efa is not True)):
        yield Finding("image", f"{s.image}", "an image with the EFA installer's libfabric",
                      "build on an image with EFA, or set imageContents.efa: true if yours has it")  # fmt: skip


@rule("nixl-on-blackwell", "error", "NIXL on B200 is newer than 0.10.0.",
      "https://github.com/vllm-project/vllm/issues/35799")  # fmt: skip
def nixl_on_blackwell(plan: Plan) -> Iterator[Finding]:
    version = plan.settings.image_contents.nixl
    gpus = {hardware.gpu for hardware in plan.hardware.values() if hardware}
    if version and gpus & {"B200", "B300", "GB200"} and _version(version) <= (0, 10, 0):
        yield Finding("imageContents.nixl", version, "newer than 0.10.0 on Blackwell", "take an image with NIXL 1.x")


@rule("libfabric-on-gb200", "error", "libfabric on GB200 is 2.5 or newer.",
      "https://github.com/ofiwg/libfabric/issues/12019: fi_mr_reg returns EFAULT")  # fmt: skip
def libfabric_on_gb200(plan: Plan) -> Iterator[Finding]:
    version = plan.settings.image_contents.libfabric
    gpus = {hardware.gpu for hardware in plan.hardware.values() if hardware}
    if version and "GB200" in gpus and _version(version) < (2, 5):
        yield Finding("imageContents.libfabric", version, "2.5 or newer on GB200", "take a newer EFA installer")


@rule("connector-built", "error", "Between the tiers stands a connector that the router, or the gateway, dispatches for.",
      "splitserve: what is not built yet is refused, not ignored; components/serving/connectors/")  # fmt: skip
def connector_built(plan: Plan) -> Iterator[Finding]:
    profile, gateway = mover(_chosen(plan)), plan.settings.render.replicas > 0
    if _split(plan) and profile and not _dispatched(profile, gateway):
        able = [one.name for one in PROFILES.values() if one.moves != "to-host" and _dispatched(one, gateway)]
        why = "the gateway has no dispatch for it" if gateway else profile.requests.why
        yield Finding("connector.name", profile.name, f"one of: {', '.join(able)}", why)


def _dispatched(profile: ConnectorProfile, gateway: bool) -> bool:
    return profile.requests.gateway is not None if gateway else profile.requests.routed != "no"


@rule("connector-measured", "error", "The gate can measure what the connector moves.",
      "splitserve: what can't be measured must not pass; components/serving/connectors/measurement.py")  # fmt: skip
def connector_measured(plan: Plan) -> Iterator[Finding]:
    how = measurement(_chosen(plan), plan.settings.topology)
    accepted = plan.settings.gate.unmeasured != "refuse"
    if how.unmeasured and mover(_chosen(plan)) and not accepted:
        yield Finding("connector.name", f"{plan.settings.connector.name}: {how.unmeasured}",
                      "a connector whose transfers the gate can measure",
                      "nixl, nixl-push or mooncake-store; or gate.unmeasured: accept-content-only")  # fmt: skip


@rule("connector-unproven", "warning", "The connector was proved with this version.",
      "components/serving/connectors/validated.py")  # fmt: skip
def connector_unproven(plan: Plan) -> Iterator[Finding]:
    names = {plan.settings.connector.name: "connector.name"}
    names |= {one.name: "connector.inner" for one in plan.settings.connector.inner}
    for name, key in names.items():
        if name not in VALIDATED:
            yield Finding(key, name, f"one of: {', '.join(VALIDATED)}", "it is deployed as vLLM documents it, unproven")


@rule("connector-parts", "error", "A connector has the settings that belong to it, and no others.",
      "vllm 0.32 factory.py, multi_connector.py, v1/kv_offload/cpu/spec.py")  # fmt: skip
def connector_parts(plan: Plan) -> Iterator[Finding]:
    connector = plan.settings.connector
    names = [one.name for one in connector.inner]
    if connector.name == "multi" and not connector.inner:
        yield Finding("connector.inner", "nothing", "the connectors inside, in order")
    if connector.name != "multi" and connector.inner:
        yield Finding("connector.inner", f"{len(connector.inner)} connectors, with {connector.name}", "none",
                      "connector.name: multi")  # fmt: skip
    for place, options in _option_places(plan).items() if connector.name == "multi" else ():
        for key, value in options.items():
            if place == "connector.options" or key not in names or not isinstance(value, dict):
                yield Finding(f"{place}.{key}", f"{value!r}", "options by the name of a connector inside, for one tier",
                              "for both tiers: the options of that connector in connector.inner")  # fmt: skip
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield Finding("connector.inner", f"{name} twice", "each connector once")
    yield from _settings_of_parts(plan)


def _settings_of_parts(plan: Plan) -> Iterator[Finding]:
    for key, part in _parts(plan):
        own_class = bool(part.module and part.class_name)
        if part.name == "custom" and not own_class:
            yield Finding(f"{key}.module and className", f"{part.module} and {part.class_name}",
                          "the Python module of the connector, and its class")  # fmt: skip
        if part.name != "custom" and (part.module or part.class_name):
            yield Finding(f"{key}.module", f"{part.module or part.class_name}, with {part.name}", "nothing",
                          "name: custom")  # fmt: skip
        if part.name in OFFLOADING and part.cpu_gib is None:
            yield Finding(f"{key}.cpuGib", "not set", "the host memory for KV cache, in GiB")
        if part.name not in (*OFFLOADING, "lmcache") and part.cpu_gib is not None:
            yield Finding(f"{key}.cpuGib", f"{part.cpu_gib:g}, with {part.name}", "nothing",
                          f"only for {', '.join(OFFLOADING)} and lmcache")  # fmt: skip


@rule("connector-moves", "error", "In separate tiers something moves KV cache from one to the other.",
      "vllm 0.32 offloading_connector.py: it serves one engine; the decoder would compute every prompt again")  # fmt: skip
def connector_moves(plan: Plan) -> Iterator[Finding]:
    connector = plan.settings.connector
    if _split(plan) and (connector.name != "multi" or connector.inner) and mover(_chosen(plan)) is None:
        names = [one.name for one in connector.inner] or [connector.name]
        yield Finding("connector.inner" if connector.inner else "connector.name", ", ".join(names),
                      "a connector between the tiers", "multi with inner: [nixl, ...]")  # fmt: skip


@rule("multi-order", "error", "Inside multi the connector between the tiers comes first.",
      "vllm 0.32 multi_connector.py get_num_new_matched_tokens: the first hit loads alone, and the decoder computes "
      "the rest of the prompt")  # fmt: skip
def multi_order(plan: Plan) -> Iterator[Finding]:
    inner, moving = plan.settings.connector.inner, mover(_chosen(plan))
    if _split(plan) and inner and moving and inner[0].name != moving.name:
        yield Finding("connector.inner", ", ".join(one.name for one in inner), f"{moving.name} first")


@rule("multi-children", "error", "Connectors inside multi get along with it.",
      "vllm 0.32 multi_connector.py: MultiKVConnectorPromMetrics.observe asserts a Prometheus class for every child "
      "with statistics; get_required_kvcache_layout")  # fmt: skip
def multi_children(plan: Plan) -> Iterator[Finding]:
    inner = plan.settings.connector.inner
    for one in inner:
        profile = PROFILES[one.name]
        if profile.own_statistics and not profile.exports:
            yield Finding("connector.inner", one.name, "a connector with Prometheus series, or without statistics",
                          "its first transfer would end the API server's output loop")  # fmt: skip
    shaped = [one for one in inner if one.name == "offloading" and one.options.get("canonical_layout")]
    if shaped and len(inner) > 1:
        yield Finding("connector.inner.offloading.options.canonical_layout", "true", "false",
                      "the other connectors want another layout of the cache")  # fmt: skip


@rule("collocated-connector", "warning", "Collocated engines have no connector that works only between tiers.",
      "splitserve: it is left out there")  # fmt: skip
def collocated_connector(plan: Plan) -> Iterator[Finding]:
    connector = plan.settings.connector
    given = "name" in connector.model_fields_set
    if not _split(plan) and given and "collocated" not in PROFILES[connector.name].roles:
        yield Finding("connector.name", f"{connector.name}, with topology collocated", "nothing, or an offloading one",
                      "it is left out")  # fmt: skip


@rule("collocated-children", "error", "Inside multi, collocated engines have no connector that works only between tiers.",
      "vllm 0.32: a producer or consumer without its other side")  # fmt: skip
def collocated_children(plan: Plan) -> Iterator[Finding]:
    for one in plan.settings.connector.inner:
        if not _split(plan) and "collocated" not in PROFILES[one.name].roles:
            yield Finding("connector.inner", f"{one.name}, with topology collocated", "none that works between tiers")


@rule("connector-package", "error", "The image holds the packages that the connector imports.",
      "vllm 0.32: each connector imports its package when the engine starts")  # fmt: skip
def connector_package(plan: Plan) -> Iterator[Finding]:
    known = plan.settings.image_contents.packages
    for package in _packages(plan) if known is not None else ():
        if not {_normal(name) for name in package.distributions} & {_normal(name) for name in known or ()}:
            yield Finding("imageContents.packages", f"{', '.join(known or ()) or 'none'}",
                          f"{' or '.join(package.distributions)}, for `import {package.imports}`", package.note)  # fmt: skip


@rule("connector-package-unknown", "warning", "It is known whether the image holds the connector's packages.",
      "vllm/vllm-openai holds NIXL alone")  # fmt: skip
def connector_package_unknown(plan: Plan) -> Iterator[Finding]:
    if plan.settings.image_contents.packages is None:
        for package in _packages(plan):
            yield Finding("imageContents.packages", "not set", f"{' or '.join(package.distributions)} among them",
                          f"vLLM imports {package.imports}, and ends without it")  # fmt: skip


@rule("mooncake-protocol", "error", "Mooncake uses a transport that the nodes have.",
      "vllm 0.32 mooncake_connector.py: mooncake_protocol is rdma unless it is set; EFA has no verbs' connections")  # fmt: skip
def mooncake_protocol(plan: Plan) -> Iterator[Finding]:
    stated = plan.settings.hardware
    fitting = ("efa", "tcp") if plan.on_efa else ("rdma", "tcp") if stated and stated.rdma_resource else ("tcp",)
    for tier in plan.settings.tiers:
        for part in _chosen(plan, tier).parts:
            protocol = part.options.get("mooncake_protocol", "rdma")
            if part.name == "mooncake" and protocol not in fitting:
                yield Finding("connector.options.mooncake_protocol", f"{protocol}", " or ".join(fitting))


@rule("moriio-hardware", "error", "MoRI-IO runs on AMD GPUs.", "vllm 0.32 moriio_connector.py imports mori, ROCm's")
def moriio_hardware(plan: Plan) -> Iterator[Finding]:
    if not any(part.name == "moriio" for part in _chosen(plan).parts):
        return
    for tier, hardware in plan.hardware.items():
        gpu = "a CPU" if plan.settings.platform.kind == "local" else hardware.gpu if hardware else None
        if gpu and not AMD_GPU.match(gpu):
            yield Finding("connector.name", f"moriio, with {gpu} ({tier})", "AMD GPUs (MI300X, ...)", "nixl")


@rule("push-context-parallel", "error", "The push connector has no decode context parallelism.",
      "vllm 0.32 nixl/connector.py: NixlPushConnector refuses decode_context_parallel_size > 1")  # fmt: skip
def push_context_parallel(plan: Plan) -> Iterator[Finding]:
    for tier, settings in plan.settings.tiers.items():
        found = flag_values(settings.extra_args)
        size = found.get("--decode-context-parallel-size") or found.get("-dcp", "1")
        if size != "1" and any(part.name == "nixl-push" for part in _chosen(plan).parts):
            yield Finding(f"{tier}.extraArgs", f"--decode-context-parallel-size {size}", "1 with nixl-push", "nixl")


@rule("concurrent-data-parallel", "error", "Where prefill and decode are asked at once, a prefiller is one rank.",
      "vllm 0.32 nixl/push_scheduler.py, mooncake_connector.py: the decoder is told the engine of one data-parallel "
      "rank before the prefiller has chosen one")  # fmt: skip
def concurrent_data_parallel(plan: Plan) -> Iterator[Finding]:
    if not _split(plan) or requests(_chosen(plan), plan.settings.topology).dispatch != "concurrent":
        return
    if (ranks := plan.settings.engine_of("prefill").parallel.data) > 1:
        yield Finding("prefill.engine.parallel.data", f"{ranks}", "1 with this connector", "more replicas, or nixl")


@rule("connector-hybrid", "error", "A model with states, or MoRI-IO's WRITE mode, has a connector that can move it.",
      "vllm 0.32 config/vllm.py: without SupportsHMA hybrid models fail at start-up; moriio_connector.py: WRITE mode "
      "only for full attention")  # fmt: skip
def connector_hybrid(plan: Plan) -> Iterator[Finding]:
    geometry = plan.geometry
    if geometry is None:
        return
    if geometry.has_state and _serves(plan) and supports_hybrid(_chosen(plan)) is False:
        yield Finding("connector", ", ".join(part.name for part in _chosen(plan).parts),
                      "connectors for hybrid models: nixl, offloading, mooncake-store", "the engine would not start")  # fmt: skip
    for tier in plan.settings.tiers:
        for part in _chosen(plan, tier).parts:
            writes = part.name == "moriio" and part.options.get("read_mode", True) is not True
            if writes and (geometry.has_state or geometry.has_window):
                yield Finding("connector.options.read_mode", f"{part.options['read_mode']}", "true for this model")


@rule("connector-window-memory", "warning", "A model with sliding windows has a connector that keeps their saving.",
      "vllm 0.32 config/vllm.py: without SupportsHMA the hybrid KV cache manager is off, and a window's layers keep "
      "every token")  # fmt: skip
def connector_window_memory(plan: Plan) -> Iterator[Finding]:
    hybrid = supports_hybrid(_chosen(plan)) if _serves(plan) else True
    if plan.geometry and plan.geometry.has_window and hybrid is False:
        yield Finding("connector", ", ".join(part.name for part in _chosen(plan).parts),
                      "connectors for hybrid models", "more KV memory for each token than the plan says")  # fmt: skip


@rule("store-shared", "error", "A store between the tiers is one that both of them reach.",
      "vllm 0.32 lmcache_integration/utils.py, lmcache_mp_connector.py, distributed/mooncake_store.py: each keeps KV "
      "to itself, or does not start, without it")  # fmt: skip
def store_shared(plan: Plan) -> Iterator[Finding]:
    for tier, settings in plan.settings.tiers.items():
        environment = {**plan.settings.engine.environment, **settings.environment}
        for part in _chosen(plan, tier).parts:
            needed = STORE_KEYS.get(part.name, ())
            moving = mover(_chosen(plan))
            wanted = part.name == "mooncake-store" or (_split(plan) and moving and moving.name == part.name)
            if needed and wanted and not any(key in part.options or key in environment for key in needed):
                yield Finding(f"{part.name} ({tier})", "no store named", f"one of {', '.join(needed)}",
                              "an option of the connector, or a variable in engine.environment")  # fmt: skip


@rule("offload-fits", "error", "A pod has the memory that its connector fills, and the mapped file fits /dev/shm.",
      "vllm 0.32 v1/kv_offload/cpu/shared_offload_region.py: a file in /dev/shm, filled at the start")  # fmt: skip
def offload_fits(plan: Plan) -> Iterator[Finding]:
    for tier in plan.settings.tiers:
        resources, asked = plan.settings.resources_of(tier), _chosen(plan, tier).parts
        mapped = sum(part.cpu_gib or 0 for part in asked if part.name == "offloading")
        filled = sum(part.cpu_gib or 0 for part in asked)
        for field, wanted in (("shm", mapped), ("memory", filled)):
            held = gib(getattr(resources, field))
            if wanted and held is not None and held <= wanted:
                yield Finding(f"{tier}.resources.{field}", f"{getattr(resources, field)}",
                              f"more than {wanted:g}Gi, which connector.cpuGib fills")  # fmt: skip


@rule("options-known", "warning", "The connector reads the options that it is given.",
      "vllm 0.32 config/kv_transfer.py: extra_config is a free dictionary, unknown keys are ignored")  # fmt: skip
def options_known(plan: Plan) -> Iterator[Finding]:
    for tier in plan.settings.tiers:
        for part in _chosen(plan, tier).parts:
            for key in part.options:
                if key not in TOP_LEVEL_KEYS and not PROFILES[part.name].knows(key):
                    yield Finding(f"connector.options.{key}", f"an option of {part.name}", "one that it reads",
                                  f"it reads {', '.join(PROFILES[part.name].reads)}")  # fmt: skip


@rule("overridden-arguments", "warning", "Extra arguments don't replace what splitserve sets.",
      "vLLM takes the last of two equal arguments; the gate then measures something else than the plan")  # fmt: skip
def overridden_arguments(plan: Plan) -> Iterator[Finding]:
    for tier, settings in plan.settings.tiers.items():
        for flag in sorted(flag_values(settings.extra_args).keys() & set(RENDERED_FLAGS)):
            yield Finding(f"{tier}.extraArgs", f"`{flag}`", "the setting of that name", "it overrides what is planned")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def _split(plan: Plan) -> bool:
    return plan.settings.topology == "prefill-decode"


def _option_places(plan: Plan) -> dict[str, dict[str, Any]]:
    """Where the stack file has options of the connector, and which."""
    s = plan.settings
    tiers = {f"{tier}.connectorOptions": settings.connector_options for tier, settings in s.tiers.items()}
    return {"connector.options": s.connector.options, **tiers}


def _chosen(plan: Plan, tier: str | None = None) -> Chosen:
    """The connector, with the options of a tier where one is named."""
    s = plan.settings
    return s.connector.chosen.with_options(s.tiers[tier].connector_options if tier else {})


def _parts(plan: Plan) -> Iterator[tuple[str, Chosen]]:
    """(key in the stack file, connector) of the one, and of those inside it."""
    yield "connector", plan.settings.connector.chosen
    for one in plan.settings.connector.inner:
        yield f"connector.inner.{one.name}", one.chosen


def _serves(plan: Plan) -> bool:
    """Whether engines get the connector at all."""
    return _split(plan) or "collocated" in PROFILES[plan.settings.connector.name].roles


def _packages(plan: Plan) -> list[Package]:
    """What the image must hold beside vLLM's own, each once."""
    found = profiles_of(_chosen(plan)) if _serves(plan) else ()
    return [package for profile in found for package in profile.packages if not package.with_vllm]


def _normal(name: str) -> str:
    """A distribution's name as packaging tools compare it, without a version."""
    return re.sub(r"[-_.]+", "-", re.split(r"[=<>!~ ]", name)[0]).lower()


def gib(quantity: str) -> float | None:
    """Kubernetes' `512Mi`, `64Gi`, `1Ti` in GiB; None for other ways to write it."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(Mi|Gi|Ti)", quantity)
    return float(match[1]) * {"Mi": 1 / 1024, "Gi": 1.0, "Ti": 1024.0}[match[2]] if match else None
