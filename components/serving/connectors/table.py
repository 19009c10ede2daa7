"""The connectors as a Markdown page: `python -m components.serving.connectors.table` writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from components.serving.connectors.chosen import Chosen
from components.serving.connectors.profile import ConnectorProfile, Place
from components.serving.connectors.profiles import PROFILES
from components.serving.connectors.transfer_config import connector_json
from components.serving.connectors.validated import VALIDATED
from components.serving.spec import EngineSpec, EngineTier

PAGE = Path(__file__).resolve().parents[3] / "docs/reference/connectors.md"
SOURCE = "distributed/kv_transfer/kv_connector/v1/"
HEAD = f"""# Connectors

What moves the KV cache: `connector.name` in the stack file. Made by
`python -m components.serving.connectors.table` from `components/serving/connectors/`. Facts are those of
vllm 0.32; sources are its files below `{SOURCE}`,
unless they begin with another folder. `kv_load_failure_policy` stands in every configuration and is left
out here. [rules](rules.md) has what is refused.
"""
EXAMPLE = EngineSpec("bfloat16", 128, 8192, None, False, 8000, 5600)
EXAMPLES = {
    "offloading": Chosen("offloading", cpu_gib=20),
    "simple-offloading": Chosen("simple-offloading", cpu_gib=20),
    "custom": Chosen("custom", module="my.module", class_name="MyConnector"),
    "multi": Chosen("multi", inner=(Chosen("nixl"), Chosen("offloading", cpu_gib=20))),
}
"""Choices for the page, where a name alone is none."""
MOVES = {
    "between-tiers": "from prefill to decode",
    "through-store": "through a store that both tiers know",
    "to-host": "nothing between tiers: to the engine's own host memory",
}


def connector_table() -> str:
    """The whole page."""
    rows = [_row(profile) for profile in PROFILES.values()]
    table = [
        "\n| connector | moves KV | measured | proxy | image needs | validated |\n|---|---|---|---|---|---|\n",
        *rows,
    ]
    return "".join([HEAD, *table, *(_section(profile) for profile in PROFILES.values())])


def _row(profile: ConnectorProfile) -> str:
    cells = (f"[`{profile.name}`](#{profile.name})", _moves(profile), _measured(profile), _proxy(profile),
             _image(profile), VALIDATED.get(profile.name, "no"))  # fmt: skip
    return f"| {' | '.join(cells)} |\n"


def _section(profile: ConnectorProfile) -> str:
    facts = {
        "Measured": _series(profile),
        "Proxy": f"{_proxy(profile)}; {profile.requests.why}",
        "Ports": _ports(profile),
        "Variables": ", ".join(f"`{name}`" for name in profile.environment or {}) or "none",
        "Devices": profile.devices,
        "Both sides alike": "; ".join(profile.matches),
        "Options that it reads": _options(profile),
    }
    lines = [f"\n## {profile.name}\n\n", *_sides(profile), "\n"]
    lines += [f"- {title}: {text}\n" for title, text in facts.items()]
    return "".join([*lines, *(f"- Limit: {limit.what} ({limit.source})\n" for limit in profile.limits)])


def _sides(profile: ConnectorProfile) -> list[str]:
    """One line of JSON a side; equal sides together."""
    chosen, said = EXAMPLES.get(profile.name, Chosen(profile.name)), dict[str, list[str]]()
    for tier in profile.roles:
        text = _told(chosen, tier)
        if text:
            said.setdefault(text, []).append(tier)
    return [f"- {', '.join(tiers)}: `{text}`\n" for text, tiers in said.items()]


def _told(chosen: Chosen, tier: EngineTier) -> str | None:
    collocated = tier == "collocated" and chosen.name == "multi"
    if collocated:
        chosen = Chosen("multi", inner=chosen.inner[1:])
    config: dict[str, Any] | None = connector_json(chosen, Place(tier, EXAMPLE, "UCX"))
    return json.dumps(config) if config else None


def _moves(profile: ConnectorProfile) -> str:
    return "as the connectors inside" if profile.name == "multi" else MOVES[profile.moves]


def _measured(profile: ConnectorProfile) -> str:
    if profile.moves == "to-host":
        return "as the connector inside between the tiers" if profile.name == "multi" else "nothing to measure"
    return "what arrived only" if profile.measurement.unmeasured else f"on {profile.measurement.side}"


def _series(profile: ConnectorProfile) -> str:
    if profile.moves == "to-host":
        return _measured(profile)
    if profile.measurement.unmeasured:
        return profile.measurement.unmeasured
    return ", ".join(
        f"{key} `{one.name}` ({' and '.join(one.sides)})" for key, one in profile.measurement.series.items()
    )


def _proxy(profile: ConnectorProfile) -> str:
    asked = profile.requests
    if asked.dispatch == "none":
        return "as the connector inside" if profile.name == "multi" else "no part in it"
    routed = {"yes": "routes it", "inferred": "should route it", "no": "does not route it"}[asked.routed]
    flags = "not" if asked.gateway is None else f"with `{' '.join(asked.gateway)}`" if asked.gateway else "as it is"
    return f"{asked.dispatch}; vllm-router 0.1.17 {routed}; the gateway {flags}"


def _image(profile: ConnectorProfile) -> str:
    needed = [f"`{package.imports}`: {' or '.join(package.distributions)}{_remark(package.note)}"
              for package in profile.packages]  # fmt: skip
    return "; ".join(needed) or "vLLM alone"


def _remark(note: str) -> str:
    return f" ({note})" if note else ""


def _ports(profile: ConnectorProfile) -> str:
    steps = {"one": "one", "data": "one more a data-parallel rank",
             "data-and-tensor": "one more a data-parallel and a tensor-parallel rank"}  # fmt: skip
    said = [f"{port.name} at `engine.sideChannelPort`{f' + {port.offset}' if port.offset else ''}, "
            f"{steps[port.per_rank]}, on {' and '.join(port.tiers)}" for port in profile.ports]  # fmt: skip
    return "; ".join(said) or "none of its own"


def _options(profile: ConnectorProfile) -> str:
    return "its own package's" if profile.reads == ("*",) else ", ".join(f"`{key}`" for key in profile.reads)


if __name__ == "__main__":
    PAGE.write_text(connector_table())
    print(f"wrote {PAGE}")
