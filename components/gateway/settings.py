"""What the gateway is started with: its flags, their defaults with units in the names, and their checks."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from typing import Any, Literal

TIERS_OF = {"prefill-decode": ("render", "prefill", "decode"), "collocated": ("render", "collocated")}


@dataclass(frozen=True)
class Settings:
    host: str = "0.0.0.0"
    port: int = 8080
    metrics_port: int = 29000
    namespace: str = "default"
    release: str = ""
    topology: Literal["prefill-decode", "collocated"] = "prefill-decode"
    encoder_tier: Literal["yes", "no"] = "no"
    render_port: int = 8000
    engine_port: int = 8000
    model: str | None = None
    max_in_flight: int = 256
    max_queued: int = 256
    queue_limit_s: float = 30.0
    body_limit_bytes: int = 16 * 2**20
    body_memory_bytes: int = 512 * 2**20
    body_limit_s: float = 30.0
    header_limit_s: float = 10.0
    connection_limit: int = 2048
    pairs_limit: int = 128
    request_limit_s: float = 1800.0
    connect_limit_s: float = 3.0
    render_limit_s: float = 30.0
    encode_limit_s: float = 60.0
    embedding_reuse_s: float = 0.0
    prefill_limit_s: float = 120.0
    first_byte_limit_s: float = 120.0
    stall_limit_s: float = 120.0
    write_limit_s: float = 60.0
    unhealthy_s: float = 10.0
    drain_s: float = 60.0
    drain_notice_s: float = 5.0
    api_key_file: str | None = None
    upstream_api_key_file: str | None = None
    dispatch: Literal["sequential", "concurrent", "bootstrap"] = "sequential"
    bootstrap_port: int = 8998
    prefill_policy: Literal["least_loaded", "prefix_aware"] = "least_loaded"
    prefix_tokens: int = 256
    render_parsers: Literal["yes", "no"] = "yes"
    allow_local_prefill: bool = False
    kubernetes_url: str = ""
    service_account: str = "/var/run/secrets/kubernetes.io/serviceaccount"
    render: tuple[str, ...] = ()
    encoder: tuple[str, ...] = ()
    prefill: tuple[str, ...] = ()
    decode: tuple[str, ...] = ()
    collocated: tuple[str, ...] = ()

    @property
    def tiers(self) -> tuple[str, ...]:
        render, *engines = TIERS_OF[self.topology]
        return (render, *(["encoder"] if self.encoder_tier == "yes" else []), *engines)

    @property
    def engine_tier(self) -> str:
        """The tier that generates the answer."""
        return self.tiers[-1]

    @property
    def static(self) -> dict[str, tuple[str, ...]]:
        """Tier -> URLs given by hand. Empty: pods are found through the Kubernetes API."""
        given = {tier: getattr(self, tier) for tier in self.tiers}
        return given if any(given.values()) else {}


HELP = {
    "release": "value of the pods' label splitserve.dev/release",
    "encoder_tier": "yes: images, videos and sounds are encoded by a tier of its own",
    "render_port": "port of render pods",
    "engine_port": "port of encoder, prefill, decode and collocated pods",
    "model": "model name for requests that name none",
    "max_in_flight": "requests served at once; the others queue",
    "max_queued": "requests that may queue; the others get 429",
    "queue_limit_s": "longest wait in the queue, then 429",
    "body_limit_bytes": "largest request body, then 413",
    "body_memory_bytes": "all request bodies being read or served, together, then 429",
    "body_limit_s": "longest time for a client to send its body, then 408",
    "header_limit_s": "longest time for a client to send its first request's headers",
    "connection_limit": "open client connections; further ones get 503 and are closed",
    "pairs_limit": "prompts times n within one request",
    "request_limit_s": "a whole request, queue excluded",
    "connect_limit_s": "TCP connect to a pod",
    "render_limit_s": "one call of render or derender",
    "encode_limit_s": "one call of the encoder tier",
    "embedding_reuse_s": "how long an encoded item is used again without asking; 0: the encoder is asked each time",
    "prefill_limit_s": "the prefill leg",
    "first_byte_limit_s": "until a streaming engine's first token",
    "stall_limit_s": "between two tokens of a stream",
    "write_limit_s": "longest time for a client to take what was written to it, then it is hung up on",
    "unhealthy_s": "how long a pod that refused a connection is passed over",
    "drain_s": "after SIGTERM: longest wait for requests in flight",
    "drain_notice_s": "after SIGTERM: time in which not-ready spreads before new requests are refused",
    "api_key_file": "one client key a line; without it everyone may ask",
    "upstream_api_key_file": "the key that the tiers ask for (vllm --api-key)",
    "dispatch": "concurrent is for connectors that push (NixlPushConnector), bootstrap for Mooncake",
    "bootstrap_port": "port of a prefill pod's bootstrap server (vLLM's VLLM_MOONCAKE_BOOTSTRAP_PORT)",
    "prefix_tokens": "prompt tokens that prefix_aware hashes",
    "render_parsers": "no: the render tier has neither a tool nor a reasoning parser; spares bytes per chunk",
    "allow_local_prefill": "go on when prefill answers without kv_transfer_params (decode then prefills itself)",
    "kubernetes_url": "API server; without it the one that the kubelet names",
    "service_account": "folder with token and ca.crt",
}
CHOICES = {
    "topology": list(TIERS_OF),
    "dispatch": ["sequential", "concurrent", "bootstrap"],
    "encoder_tier": ["yes", "no"],
    "prefill_policy": ["least_loaded", "prefix_aware"],
    "render_parsers": ["yes", "no"],
}
URLS = ("render", "encoder", "prefill", "decode", "collocated")


def parser() -> argparse.ArgumentParser:
    """One flag per field of `Settings`: the names are the fields' with dashes."""
    made = argparse.ArgumentParser("gateway", description="Chains render, prefill, decode and derender.")
    for field in fields(Settings):
        flag = "--" + field.name.replace("_", "-")
        about = HELP.get(field.name, " ")
        if field.name in URLS:
            made.add_argument(flag, action="append", default=[], metavar="URL", help="static pod, repeatable")
        elif isinstance(field.default, bool):
            made.add_argument(flag, action="store_true", help=about)
        elif field.name in CHOICES:
            made.add_argument(flag, choices=CHOICES[field.name], default=field.default, help=about)
        else:
            kind = type(field.default) if isinstance(field.default, int | float) else str
            made.add_argument(flag, type=kind, default=field.default, help=about + " (default: %(default)s)")
    return made


def faults_of(settings: Settings) -> list[str]:
    """All that is wrong with the flags, at once."""
    faults: list[str] = []
    if settings.static:
        faults += [f"--{tier}: no URL given, others have one" for tier, urls in settings.static.items() if not urls]
    elif not settings.release:
        faults.append("--release (or a static URL for each tier) is needed to find pods")
    with_encoder = " --encoder-tier yes" if settings.encoder_tier == "yes" else ""
    unused = [tier for tier in URLS if tier not in settings.tiers and getattr(settings, tier)]
    faults += [f"--{tier}: not a tier of --topology {settings.topology}{with_encoder}" for tier in unused]
    for name in ("max_in_flight", "connection_limit", "body_limit_bytes", "pairs_limit"):
        if getattr(settings, name) < 1:
            faults.append(f"--{name.replace('_', '-')}: found {getattr(settings, name)}, wanted at least 1")
    if settings.dispatch != "sequential" and settings.topology == "collocated":
        faults.append(f"--dispatch {settings.dispatch}: collocated has no second leg")
    if settings.embedding_reuse_s < 0:
        faults.append(f"--embedding-reuse-s: found {settings.embedding_reuse_s:g}, wanted 0 or more")
    return faults


def parse(arguments: list[str]) -> Settings:
    """Raises: SystemExit with all faults in one message."""
    found = vars(parser().parse_args(arguments))
    given: dict[str, Any] = {name: tuple(value) if name in URLS else value for name, value in found.items()}
    settings = Settings(**given)
    if faults := faults_of(settings):
        raise SystemExit("gateway: " + "; ".join(faults))
    return settings
