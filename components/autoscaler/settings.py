"""What the autoscaler is started with: its flags, their defaults with units in the names, and their checks."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from .signals import DEFAULT_TARGETS


@dataclass(frozen=True)
class Bounds:
    """Fewest and most replicas of a tier. Zero is a stopped release, so the least is one."""

    least: int
    most: int


@dataclass(frozen=True)
class Settings:
    namespace: str = "default"
    service: str = "splitserve"
    engine_port: int = 8000
    render_port: int = 8000
    host: str = "0.0.0.0"
    metrics_port: int = 29100
    period_s: float = 5.0
    scrape_limit_s: float = 2.0
    call_limit_s: float = 10.0
    tolerance: float = 0.1
    up_window_s: float = 10.0
    down_window_s: float = 300.0
    up_step: int = 4
    up_step_window_s: float = 15.0
    down_step: int = 1
    down_step_window_s: float = 300.0
    ratio_min: float = 0.0
    ratio_max: float = 0.0
    settle_s: float = 120.0
    rate_window_s: float = 60.0
    average_s: float = 15.0
    prefill_tokens_per_s: float = 0.0
    dry_run: bool = False
    kubernetes_url: str = "https://kubernetes.default.svc"
    service_account: str = "/var/run/secrets/kubernetes.io/serviceaccount"
    tiers: Mapping[str, Bounds] = field(default_factory=dict)
    targets: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: DEFAULT_TARGETS)

    @property
    def ratio(self) -> tuple[float, float]:
        """Bounds of prefill pods per decode pod; a flag of 0 sets no bound."""
        return self.ratio_min, self.ratio_max or math.inf

    def port(self, tier: str) -> int:
        return self.render_port if tier == "render" else self.engine_port


HELP = {
    "namespace": "where the release runs",
    "service": "the Service whose selector names the live release",
    "engine_port": "port of prefill, decode and collocated pods",
    "render_port": "port of render pods",
    "metrics_port": "port of this program's /metrics and /health",
    "period_s": "seconds between two rounds",
    "scrape_limit_s": "longest wait for a pod's metrics",
    "call_limit_s": "longest wait for the API server",
    "tolerance": "how far from its target a signal may be without a change, as a share",
    "up_window_s": "raise a tier only to what was asked for throughout this time",
    "down_window_s": "lower a tier only to the most that was asked for in this time",
    "up_step": "pods that may be added within --up-step-window-s; doubling is always allowed",
    "up_step_window_s": "see --up-step",
    "down_step": "pods that may be taken away within --down-step-window-s",
    "down_step_window_s": "see --down-step",
    "ratio_min": "fewest prefill pods per decode pod; 0: no bound",
    "ratio_max": "most prefill pods per decode pod; 0: no bound",
    "settle_s": "nothing is lowered for so long after traffic moved to another release",
    "rate_window_s": "time over which rates and latency percentiles are taken",
    "average_s": "time over which queues, running requests and cache use are averaged; 0: the last look alone",
    "prefill_tokens_per_s": "prompt tokens that one prefill pod computes a second; 0: learned while it has a queue",
    "dry_run": "decide, log and export, but change nothing",
    "kubernetes_url": "API server",
    "service_account": "folder with token and ca.crt",
}


def parser() -> argparse.ArgumentParser:
    """One flag per plain field of `Settings`: the names are the fields' with dashes."""
    made = argparse.ArgumentParser("autoscaler", description="Sizes the tiers of the live release.")
    made.add_argument("--tier", action="append", default=[], metavar="NAME=MIN:MAX",
                      help="a tier to scale, and its bounds in pods; repeatable. Other tiers are left alone")  # fmt: skip
    made.add_argument("--target", action="append", default=[], metavar="TIER.SIGNAL=VALUE",
                      help="what a signal shall be per pod; repeatable, 0 switches it off. Defaults: "
                      + " ".join(f"{t}.{s}={v:g}" for t, row in DEFAULT_TARGETS.items() for s, v in row.items()))  # fmt: skip
    for item in fields(Settings):
        flag, about = "--" + item.name.replace("_", "-"), HELP.get(item.name, " ")
        if isinstance(item.default, bool):
            made.add_argument(flag, action="store_true", help=about)
        elif isinstance(item.default, int | float | str):
            made.add_argument(
                flag, type=type(item.default), default=item.default, help=about + " (default: %(default)s)"
            )
    return made


def read_tiers(given: list[str], faults: list[str]) -> dict[str, Bounds]:
    """`prefill=1:4` and the like; what can't be read is added to `faults`."""
    tiers: dict[str, Bounds] = {}
    for text in given:
        name, _, bounds = text.partition("=")
        least, _, most = bounds.partition(":")
        if name not in DEFAULT_TARGETS:
            faults.append(f"--tier {text}: found {name!r}, wanted one of {', '.join(DEFAULT_TARGETS)}")
        elif not (least.isdecimal() and most.isdecimal() and 1 <= int(least) <= int(most)):
            faults.append(f"--tier {text}: wanted {name}=MIN:MAX with 1 <= MIN <= MAX")
        else:
            tiers[name] = Bounds(int(least), int(most))
    return tiers


def read_targets(given: list[str], faults: list[str]) -> dict[str, dict[str, float]]:
    """`decode.kv_usage=0.6` and the like over the defaults; what can't be read is added to `faults`."""
    targets = {tier: dict(row) for tier, row in DEFAULT_TARGETS.items()}
    for text in given:
        path, _, number = text.partition("=")
        tier, _, signal = path.partition(".")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if signal not in targets.get(tier, {}):
            known = ", ".join(f"{t}.{s}" for t, row in DEFAULT_TARGETS.items() for s in row)
            faults.append(f"--target {text}: found {path!r}, wanted one of {known}")
        elif not 0 <= value < math.inf:
            faults.append(f"--target {text}: wanted a number, 0 or more")
        else:
            targets[tier][signal] = value
    return targets


def ratio_faults(settings: Settings) -> list[str]:
    """Why the ratio's bounds can't be kept, if they can't."""
    lowest, highest = settings.ratio
    if lowest == 0 and math.isinf(highest):
        return []
    prefill, decode = settings.tiers.get("prefill"), settings.tiers.get("decode")
    if lowest < 0 or lowest > highest:
        return [f"--ratio-min {lowest:g}, --ratio-max {highest:g}: wanted 0 <= min <= max"]
    if not (prefill and decode):
        return ["--ratio-min, --ratio-max: need both --tier prefill and --tier decode"]
    pairs = ((p, d) for d in range(decode.least, decode.most + 1) for p in range(prefill.least, prefill.most + 1))
    if any(lowest - 1e-9 <= p / d <= highest + 1e-9 for p, d in pairs):
        return []
    return [f"--ratio-min {lowest:g}, --ratio-max {highest:g}: no sizes within the tiers' bounds keep them"]


def faults_of(settings: Settings) -> list[str]:
    """All that is wrong with the flags, at once."""
    faults = [] if settings.tiers else ["--tier: found none, wanted at least one tier to scale"]
    for tier in settings.tiers:
        if not any(settings.targets[tier].values()):
            faults.append(f"--target: every signal of {tier} is switched off")
    for name in ("period_s", "scrape_limit_s", "call_limit_s", "rate_window_s", "up_step", "down_step"):
        if getattr(settings, name) <= 0:
            faults.append(f"--{name.replace('_', '-')}: found {getattr(settings, name)}, wanted more than 0")
    for name in (
        "tolerance",
        "up_window_s",
        "down_window_s",
        "up_step_window_s",
        "down_step_window_s",
        "settle_s",
        "average_s",
    ):
        if getattr(settings, name) < 0:
            faults.append(f"--{name.replace('_', '-')}: found {getattr(settings, name)}, wanted 0 or more")
    if settings.rate_window_s < 2 * settings.period_s:
        faults.append("--rate-window-s: wanted at least two periods, or no rate can be taken")
    return faults + ratio_faults(settings)


def parse(arguments: list[str]) -> Settings:
    """Raises: SystemExit with all faults in one message."""
    found, faults = vars(parser().parse_args(arguments)), []
    tiers, targets = read_tiers(found.pop("tier"), faults), read_targets(found.pop("target"), faults)
    settings = Settings(**found, tiers=tiers, targets=targets)
    if faults := faults + ([] if faults else faults_of(settings)):
        raise SystemExit("autoscaler: " + "; ".join(faults))
    return settings
