"""What a user sees of `splitserve bench`: figures, one line of JSON last, and a message for each mistake."""

from __future__ import annotations

import base64
import json
import subprocess
import zlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from typer.testing import CliRunner
from urllib3.exceptions import MaxRetryError

from components.bench import job_run, plot
from components.bench.in_pod import BEGIN, END
from components.bench.job_run import TookTooLong
from components.release import cluster as cluster_file
from components.release.cluster import ClusterFault
from components.release.ledger import Ledger, Proved
from infra.cli import app
from infra.commands import bench as bench_file
from infra.commands import deployed
from infra.settings import load
from tests.unit.test_release import build
from tests.unit.test_settings import changed, values

TARGETS = ["--ttft-ms", "2000", "--itl-ms", "50"]
SHORT = ["--prompt-tokens", "256", "--output-tokens", "8", *TARGETS]
FIXED = [*SHORT, "--rates", "1,2,4"]


class World:
    """Stacks, their clusters and how fast they are, in place of `pulumi` and Kubernetes."""

    def __init__(self) -> None:
        self.stacks = {"local": values(), "base": changed("topology", "collocated")}
        self.limits = {"local": 2.5, "base": 1.5}
        """Requests per second from which TTFT misses, by stack."""
        self.live: dict[str, Any] = {stack: build(settings) for stack, settings in self.stacks.items()}
        self.selected = {stack: release.id for stack, release in self.live.items()}
        self.sizes = {stack: dict.fromkeys(release.pods, 1) for stack, release in self.live.items()}
        self.sizes["base"]["collocated"] = 2
        self.busy: list[str] = []
        self.seen: list[tuple[str, float, int, int]] = []
        self.jobs: list[dict[str, Any]] = []
        self.error = ""
        self.raises: dict[float, BaseException] = {}
        self.unreachable: Exception | None = None

    def outputs(self, stack: str) -> dict[str, Any]:
        release = self.live.get(stack)
        ledger = Ledger(live=Proved(release, {}) if release else None)
        return {"endpoint": "http://e", "verdict": "fail", "ledger": json.loads(json.dumps(ledger.to_json()))}

    def stack_of(self, release_id: str) -> str:
        return next(stack for stack, release in self.live.items() if release.id == release_id)

    def run_job(self, cluster: Any, job: dict[str, Any], limit_s: int, tick: Any) -> str:
        self.jobs.append(job)
        command = job["spec"]["template"]["spec"]["containers"][0]["command"]
        flags = dict(zip(command[6:], [*command[7:], ""], strict=True))
        rate, count = float(flags["--request-rate"]), int(flags["--num-prompts"])
        stack = self.stack_of(job["metadata"]["labels"]["splitserve.dev/bench-of"])
        self.seen.append((stack, rate, count, int(flags["--seed"])))
        tick()
        if rate in self.raises:
            raise self.raises[rate]
        ttft_s = 0.1 if rate <= self.limits[stack] else 3.0
        result = {
            "duration": count / rate,
            "input_lens": [256] * count,
            "output_lens": [0 if self.error else 8] * count,
            "ttfts": [0.0 if self.error else ttft_s] * count,
            "itls": [[0.02] * 7] * count,
            "start_times": [number / rate for number in range(count)],
            "errors": [self.error] * count,
        }
        return f"{BEGIN} {base64.b64encode(zlib.compress(json.dumps(result).encode())).decode()} {END}"

    def cluster(self, access: Any) -> Any:
        if self.unreachable:
            raise self.unreachable
        stack = access.namespace
        return SimpleNamespace(stack=stack, sizes=lambda release_id: self.sizes[stack])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    found = World()
    monkeypatch.setattr(bench_file, "outputs_of", found.outputs)
    monkeypatch.setattr(bench_file, "_settings", lambda stack: load(found.stacks[stack], stack))
    monkeypatch.setattr(bench_file, "_access", lambda stack, *_: SimpleNamespace(namespace=stack))
    monkeypatch.setattr(cluster_file, "Cluster", found.cluster)
    monkeypatch.setattr(job_run, "front_door", lambda cluster: ("http://10.0.0.1:80", found.selected[cluster.stack]))
    monkeypatch.setattr(job_run, "running", lambda cluster: found.busy)
    monkeypatch.setattr(job_run, "run_job", found.run_job)
    return found


def bench(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["bench", *arguments])


def last_line(result: Any) -> dict[str, Any]:
    return json.loads(result.stdout.splitlines()[-1])


def refused(*arguments: str) -> str:
    """The message of a command that ends with exit code 2 and shows no traceback."""
    result = bench(*arguments)
    assert result.exit_code == 2, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    return " ".join(result.stderr.split())


def test_one_stack_has_a_table_a_sentence_and_json_last(world: World) -> None:
    result = bench(*FIXED)
    assert result.exit_code == 0, result.output
    assert "local: goodput 2 requests/s; at 4 0.0% of requests were within both, TTFT binds" in result.stdout
    found = last_line(result)
    assert found["stacks"][0]["goodput_per_s"] == 2 and found["complete"] and found["comparison"] is None
    assert [row["rate_per_s"] for row in found["stacks"][0]["rates"]] == [1, 2, 4]
    assert [(count, rate) for _, rate, count, _ in world.seen] == [(5, 1.0), (100, 1), (100, 2), (100, 4)]


def test_json_alone_is_one_line(world: World) -> None:
    result = bench(*FIXED, "--json")
    assert len(result.stdout.splitlines()) == 1 and last_line(result)["benchmark"] == "goodput"


def test_auto_finds_the_goodput(world: World) -> None:
    found = last_line(bench(*SHORT, "--json"))["stacks"][0]
    assert 2.5 / 1.15 <= found["goodput_per_s"] <= 2.5 and found["bounded"]


def test_two_stacks_take_turns_and_get_the_same_prompts_and_advice(world: World) -> None:
    result = bench(*FIXED, "--against", "base", "--seed", "7")
    found = last_line(result)
    assert found["comparison"]["choice"] == "split" and "\nsplit\n" in result.stdout
    assert [seen[0] for seen in world.seen[2:6]] == ["local", "base", "base", "local"]
    assert [seen[2] for seen in world.seen[2:6]] == [50] * 4
    for stack in ("local", "base"):
        seeds = [seed for seen, _, _, seed in world.seen if seen == stack]
        assert len(set(seeds)) == len(seeds)
    assert [s[1:] for s in world.seen if s[0] == "local"] == [s[1:] for s in world.seen if s[0] == "base"]


def test_without_a_seed_each_benchmark_has_prompts_of_its_own(world: World) -> None:
    assert last_line(bench(*FIXED))["seed"] != last_line(bench(*FIXED))["seed"]


def test_a_stack_that_misses_at_once_ends_with_code_1(world: World) -> None:
    world.limits["local"] = 0.1
    result = bench(*FIXED)
    assert result.exit_code == 1 and "goodput below 1 requests/s" in result.stdout


def test_few_requests_are_said_and_nothing_is_advised_from_them(world: World) -> None:
    result = bench(*FIXED, "--against", "base", "--requests", "20")
    assert "note: p99 of 20 requests is (nearly) their maximum" in result.stdout
    assert last_line(result)["comparison"]["choice"] == "measure"


def test_a_small_vocabulary_is_warned_of(world: World) -> None:
    notes = last_line(bench(*FIXED))["notes"]
    assert any("began like an earlier one" in note for note in notes)


def test_load_and_targets_come_from_the_stack_files_traffic(world: World) -> None:
    traffic = {
        "promptTokens": 300, "outputTokens": 8, "ratePerS": 1.5, "ttftTargetMs": 900.0, "itlP99TargetMs": 60.0,
    }  # fmt: skip
    world.stacks["local"] = {**world.stacks["local"], "traffic": traffic}
    found = last_line(bench("--max-rates", "1"))
    assert found["load"] == {"prompt_tokens": 300, "output_tokens": 8, "requests": 100}
    assert (found["targets"]["ttft_ms"], found["targets"]["itl_ms"]) == (900, 60)
    assert found["stacks"][0]["rates"][0]["rate_per_s"] == 1.5


def keys_of(job: dict[str, Any]) -> list[Any]:
    env = job["spec"]["template"]["spec"]["containers"][0]["env"]
    return [entry["valueFrom"]["secretKeyRef"] for entry in env if entry["name"] == "OPENAI_API_KEY"]


def test_a_key_goes_to_the_job_by_name(world: World) -> None:
    bench(*FIXED, "--key-secret", "clients/one")
    assert keys_of(world.jobs[0]) == [{"name": "clients", "key": "one"}]


def test_the_stacks_own_key_is_used_without_asking(world: World) -> None:
    local = world.live["local"]
    world.live["local"] = replace(local, expectation=replace(local.expectation, api_key_secret="clients"))
    bench(*FIXED)
    assert keys_of(world.jobs[0]) == [{"name": "clients", "key": "api-key"}]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prompt-tokens", "256"], "found none for --ttft-ms (or traffic.ttftTargetMs in stacks/Pulumi.local.yaml) and --itl-ms"),
        ([*SHORT, "--ttft-ms", "0"], "found none for --ttft-ms"),
        ([*SHORT, "--rates", "fast"], "--rates: found `fast`; wanted requests per second"),
        ([*FIXED, "--against", "local"], "--against: found local, which is --stack already"),
        ([*FIXED, "--key-secret", "clients"], "--key-secret: found `clients`; wanted NAME/KEY"),
        ([*FIXED, "--plot", "curve.pdf"], "--plot: found `curve.pdf`; wanted a name that ends in .svg or .png"),
        (TARGETS, "found 8,192 + 128 tokens; stack local serves contexts of 2,048 at most; give fewer"),
        ([*FIXED, "--share", "1.5"], "--share"),
        ([*FIXED, "--requests", "0"], "--requests"),
    ],
)  # fmt: skip
def test_mistakes_are_said_before_anything_runs(world: World, arguments: list[str], words: str) -> None:
    assert words in refused(*arguments).replace("│ ", "")
    assert not world.seen


def test_a_stack_that_has_no_live_release_is_not_measured(world: World) -> None:
    world.live = {}
    assert "stack local has no live release: its last gate said fail; run: pulumi up" in refused(*FIXED)


def test_a_front_door_that_leads_elsewhere_is_said(world: World) -> None:
    world.selected["local"] = "other"
    assert "found release other behind the front door" in refused(*FIXED)


def test_a_stopped_release_is_said(world: World) -> None:
    world.sizes["local"] = dict.fromkeys(world.live["local"].pods, 0)
    assert "0 engines of" in refused(*FIXED)


def test_another_benchmark_is_not_measured_along(world: World) -> None:
    world.busy = ["bench-1"]
    found = refused(*FIXED)
    assert (
        "found benchmark bench-1 running" in found and "kubectl -n local delete job -l splitserve.dev/bench-of" in found
    )


@pytest.mark.parametrize(
    "error",
    [
        ConfigException("no context x"), ClusterFault("Service splitserve: refused"), OSError("no route"),
        ApiException(status=403, reason="Forbidden"), MaxRetryError(None, "https://a", None),  # pyright: ignore[reportArgumentType]
    ],
)  # fmt: skip
def test_a_cluster_that_cannot_be_asked_is_said(world: World, error: Exception) -> None:
    world.unreachable = error
    assert "the cluster of stack local can't be asked" in refused(*FIXED)


def test_another_model_cannot_be_compared(world: World) -> None:
    base = world.live["base"]
    world.live["base"] = replace(base, expectation=replace(base.expectation, model="other"))
    assert "--against: model: found `tiny` and `other`" in refused(*FIXED, "--against", "base")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Unauthorized", "http://10.0.0.1:80 wants an API key (Unauthorized); give --key-secret NAME/KEY"),
        ("ConnectionRefusedError: no", "answered no request of the warm-up: ConnectionRefusedError: no; ask it yourself"),
    ],
)  # fmt: skip
def test_a_front_door_that_answers_nothing_is_found_by_the_warm_up(world: World, reason: str, words: str) -> None:
    world.error = reason
    assert words in refused(*FIXED)
    assert len(world.seen) == 1


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ClusterFault("Job bench-1 failed: OOMKilled"), "not measured: Job bench-1 failed: OOMKilled"),
        (TookTooLong("Job bench-1 did not end within 900 s"), "give lower --rates, or raise --drain-limit-s"),
    ],
)
def test_what_was_measured_before_a_fault_is_shown(world: World, error: BaseException, words: str) -> None:
    world.raises[4.0] = error
    result = bench(*FIXED)
    assert result.exit_code == 2 and words in " ".join(result.stderr.split())
    found = last_line(result)
    assert not found["complete"] and [row["rate_per_s"] for row in found["stacks"][0]["rates"]] == [1, 2]


def test_ctrl_c_ends_it_with_what_there_is(world: World) -> None:
    world.raises[2.0] = KeyboardInterrupt()
    result = bench(*FIXED)
    assert result.exit_code == 130 and "stopped" in result.stderr
    assert len(last_line(result)["stacks"][0]["rates"]) == 1


def test_a_picture_is_drawn_of_what_was_measured(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(plot, "check", lambda path: None)
    monkeypatch.setattr(plot, "plot", lambda path, sides, targets: drawn.append((path, len(sides[0].points))))
    bench(*FIXED, "--plot", str(tmp_path / "a.svg"))
    assert drawn == [(tmp_path / "a.svg", 3)]


def test_a_picture_that_fails_takes_no_figures_with_it(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: Any) -> None:
        raise plot.CannotPlot("a.svg can't be written: No space left on device")

    monkeypatch.setattr(plot, "check", lambda path: None)
    monkeypatch.setattr(plot, "plot", full)
    result = bench(*FIXED, "--plot", str(tmp_path / "a.svg"))
    assert result.exit_code == 2 and "--plot: a.svg can't be written" in result.stderr
    assert last_line(result)["stacks"][0]["goodput_per_s"] == 2


def test_a_stack_without_a_file_is_said() -> None:
    found = refused(*FIXED, "--stack", "nowhere")
    assert "found no stacks/Pulumi.nowhere.yaml; there are: " in found and "local" in found


def test_without_pulumi_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise FileNotFoundError("pulumi")

    monkeypatch.setattr(deployed.subprocess, "run", missing)
    result = bench(*FIXED)
    assert result.exit_code == 1 and "no `pulumi` on PATH" in result.stderr


def test_a_stack_that_was_never_up_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.CompletedProcess([], 0, stdout="{}", stderr="")
    monkeypatch.setattr(deployed.subprocess, "run", lambda *_, **__: done)
    result = bench(*FIXED)
    assert result.exit_code == 1 and "stack local was not deployed yet" in result.stderr
