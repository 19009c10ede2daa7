"""The connector's own settings: what vLLM would ignore without a word, or NIXL would do slowly."""

from __future__ import annotations

import re
from collections.abc import Iterator

from infra.plan import Plan
from infra.rules.parity import flag_values
from infra.rules.rule import Finding, rule

IGNORED_VARIABLES = ("NIXL_BACKEND", "VLLM_NIXL_KVCACHE_BACKEND", "VLLM_NIXL_ABORT_REQUEST_TIMEOUT")
TOP_LEVEL_KEYS = ("kv_load_failure_policy", "kv_role", "kv_buffer_device", "kv_connector")
BUILT_CONNECTORS = ("nixl",)
RENDERED_FLAGS = ("--kv-transfer-config", "--port", "--shutdown-timeout", "--block-size", "--dtype", "--max-model-len",
                  "--served-model-name", "--tensor-parallel-size", "--kv-cache-dtype")  # fmt: skip


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
    s = plan.settings
    places = {"connector.options": s.connector.options, "prefill.connectorOptions": s.prefill.connector_options,
              "decode.connectorOptions": s.decode.connector_options}  # fmt: skip
    for place, options in places.items():
        for key in TOP_LEVEL_KEYS:
            if key in options:
                yield Finding(f"{place}.{key}", f"{options[key]!r}", "no such option: vLLM ignores it there",
                              "use connector.loadFailurePolicy" if "failure" in key else "leave it out")  # fmt: skip


@rule("efa-backend", "error", "NIXL moves KV over EFA by LIBFABRIC.",
      "https://github.com/ai-dynamo/nixl/issues/909, https://github.com/ai-dynamo/dynamo/issues/4185: UCX on EFA is "
      "software emulation, 0.3 GB/s")  # fmt: skip
def efa_backend(plan: Plan) -> Iterator[Finding]:
    if plan.on_efa and plan.settings.connector.name.startswith("nixl") and plan.backend != "LIBFABRIC":
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


@rule("connector-built", "error", "The connector is one that this version deploys.",
      "splitserve: what is not built yet is refused, not ignored")  # fmt: skip
def connector_built(plan: Plan) -> Iterator[Finding]:
    s = plan.settings
    if s.topology == "prefill-decode" and s.connector.name not in BUILT_CONNECTORS:
        yield Finding("connector.name", s.connector.name, f"one of: {', '.join(BUILT_CONNECTORS)}",
                      "this version deploys no other")  # fmt: skip
    if s.connector.inner or s.connector.module:
        yield Finding("connector", "inner or module", "neither with this connector")


@rule("overridden-arguments", "warning", "Extra arguments don't replace what splitserve sets.",
      "vLLM takes the last of two equal arguments; the gate then measures something else than the plan")  # fmt: skip
def overridden_arguments(plan: Plan) -> Iterator[Finding]:
    for tier, settings in plan.settings.tiers.items():
        for flag in sorted(flag_values(settings.extra_args).keys() & set(RENDERED_FLAGS)):
            yield Finding(f"{tier}.extraArgs", f"`{flag}`", "the setting of that name", "it overrides what is planned")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
