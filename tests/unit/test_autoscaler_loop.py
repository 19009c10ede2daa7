"""The autoscaler against a Kubernetes API and pods made up here, each pod on a loopback address of its own."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from components.autoscaler.cluster import DELETION_COST, LEAVES_FIRST, Changed, Cluster, ClusterFault
from components.autoscaler.loop import Autoscaler
from components.autoscaler.packed import packed
from components.autoscaler.scrape import Scraper
from components.autoscaler.settings import Settings, parse
from components.autoscaler.telemetry import Telemetry
from components.serving import labels
from tests.unit.ports import free_port

HOST = "127.0.0.1"
ADDRESSES = [f"127.0.7.{number}" for number in range(1, 25)]
NAMESPACE = "/namespaces/serving"
PERIOD_S = 5.0


@dataclass
class FakePod:
    name: str
    tier: str
    release: str
    ip: str
    born: int
    running: float = 0.0
    queue: float = 0.0
    kv: float = 0.1
    ready: bool = True
    silent: bool = False
    cost: str | None = None
    cores: float = 0.0
    cpu_s: float = 0.0

    def page(self) -> str:
        if self.tier == "render":
            self.cpu_s += self.cores * PERIOD_S
            return f"process_cpu_seconds_total {self.cpu_s}\n"
        return (
            f'vllm:num_requests_running{{engine="0"}} {self.running}\n'
            f'vllm:num_requests_waiting{{engine="0"}} {self.queue}\n'
            f'vllm:kv_cache_usage_perc{{engine="0"}} {self.kv}\n'
        )

    def object(self) -> dict[str, Any]:
        return {
            "metadata": {
                "name": self.name,
                "uid": f"uid-{self.name}",
                "labels": labels.pod_labels(self.release, self.tier),
                "creationTimestamp": f"2026-01-01T00:00:{self.born:02}Z",
                "annotations": {DELETION_COST: self.cost} if self.cost else {},
            },
            "status": {
                "phase": "Running",
                "podIP": self.ip,
                "conditions": [{"type": "Ready", "status": "True" if self.ready else "False"}],
            },
        }


@dataclass
class FakeCluster:
    """Deployments, pods and one Service. Scaling makes and takes pods as a ReplicaSet would."""

    live: str = "aaa"
    port: int = 0
    render_port: int = 0
    replicas: dict[str, int] = field(default_factory=dict)
    pods: list[FakePod] = field(default_factory=list)
    load: Callable[[FakeCluster], None] = lambda _: None
    unobserved: bool = False
    version: int = 1
    meddle: Callable[[], None] | None = None
    broken: bool = False
    writes: list[tuple[str, Any]] = field(default_factory=list)
    born: int = 0
    tokens: set[str | None] = field(default_factory=set)

    def deploy(self, tier: str, release: str, count: int) -> None:
        self.resize(labels.workload_name(tier, release), count)

    def resize(self, name: str, count: int) -> None:
        tier, _, release = name.rpartition("-")
        mine = [pod for pod in self.pods if (pod.tier, pod.release) == (tier, release)]
        for _ in range(count - len(mine)):
            self.born += 1
            free = next(ip for ip in ADDRESSES if all(pod.ip != ip for pod in self.pods))
            self.pods.append(FakePod(f"{name}-{self.born}", tier, release, free, self.born))
        mine.sort(key=lambda pod: (pod.ready, int(pod.cost or 0), -pod.born))
        for pod in mine[: max(len(mine) - count, 0)]:
            self.pods.remove(pod)
        self.replicas[name] = count
        self.version += 1
        self.load(self)

    def of(self, tier: str, release: str = "aaa") -> list[FakePod]:
        return [pod for pod in self.pods if (pod.tier, pod.release) == (tier, release)]

    def size(self, tier: str, release: str = "aaa") -> int:
        return self.replicas[labels.workload_name(tier, release)]

    def app(self) -> web.Application:
        app = web.Application()
        app.add_routes(
            [
                web.get(f"/api/v1{NAMESPACE}/services/splitserve", self.service),
                web.get(f"/api/v1{NAMESPACE}/pods", self.list_pods),
                web.patch(f"/api/v1{NAMESPACE}/pods/{{name}}", self.patch_pod),
                web.get(f"/apis/apps/v1{NAMESPACE}/deployments", self.list_deployments),
                web.get(f"/apis/apps/v1{NAMESPACE}/deployments/{{name}}/scale", self.get_scale),
                web.patch(f"/apis/apps/v1{NAMESPACE}/deployments/{{name}}/scale", self.patch_scale),
            ]
        )
        return app

    async def service(self, request: web.Request) -> web.Response:
        self.tokens.add(request.headers.get("Authorization"))
        if self.broken:
            return web.Response(status=500, text="etcd is gone")
        selector = {labels.RELEASE_LABEL: self.live, labels.TIER_LABEL: "router"}
        return web.json_response({"spec": {"selector": selector}})

    def release_of(self, request: web.Request) -> str:
        return request.query["labelSelector"].split(",")[0].removeprefix(f"{labels.RELEASE_LABEL}=")

    async def list_pods(self, request: web.Request) -> web.Response:
        release = self.release_of(request)
        return web.json_response({"items": [pod.object() for pod in self.pods if pod.release == release]})

    async def list_deployments(self, request: web.Request) -> web.Response:
        items = [
            {
                "metadata": {
                    "name": name,
                    "labels": labels.pod_labels(*reversed(name.rsplit("-", 1))),
                    "generation": 2,
                },
                "spec": {"replicas": count},
                "status": {"observedGeneration": 1 if self.unobserved else 2, "replicas": count},
            }
            for name, count in self.replicas.items()
            if name.endswith(f"-{self.release_of(request)}")
        ]
        return web.json_response({"items": items})

    async def get_scale(self, request: web.Request) -> web.Response:
        count = self.replicas[request.match_info["name"]]
        answer = {"metadata": {"resourceVersion": str(self.version)}, "spec": {"replicas": count}}
        if self.meddle:
            self.meddle()
        return web.json_response(answer)

    async def patch_scale(self, request: web.Request) -> web.Response:
        assert request.headers["Content-Type"] == "application/merge-patch+json"
        body = await request.json()
        if body["metadata"]["resourceVersion"] != str(self.version):
            return web.Response(status=409, text="the object has been modified")
        name = request.match_info["name"]
        self.writes.append((name, body["spec"]["replicas"]))
        self.resize(name, body["spec"]["replicas"])
        return web.json_response({})

    async def patch_pod(self, request: web.Request) -> web.Response:
        assert request.headers["Content-Type"] == "application/merge-patch+json"
        pod = next(pod for pod in self.pods if pod.name == request.match_info["name"])
        pod.cost = (await request.json())["metadata"]["annotations"][DELETION_COST]
        self.writes.append((pod.name, pod.cost))
        return web.json_response({})

    async def page(self, request: web.Request) -> web.Response:
        ip, _, port = request.host.partition(":")
        pod = next((pod for pod in self.pods if pod.ip == ip), None)
        if pod is None or (pod.tier == "render") != (int(port) == self.render_port):
            return web.Response(status=404)
        return web.Response(text=pod.page(), status=503 if pod.silent else 200)


@asynccontextmanager
async def served(fake: FakeCluster) -> AsyncIterator[str]:
    """The API's URL; every pod address listens on `fake.port` and, for render pods, `fake.render_port`."""
    runners = [web.AppRunner(fake.app()), web.AppRunner(web.Application())]
    runners[1].app.router.add_get("/metrics", fake.page)
    try:
        for runner in runners:
            await runner.setup()
        await web.TCPSite(runners[0], HOST, 0).start()
        fake.port, fake.render_port = free_port(), free_port()
        for ip in ADDRESSES:
            for port in (fake.port, fake.render_port):
                await web.TCPSite(runners[1], ip, port).start()
        yield f"http://{HOST}:{runners[0].addresses[0][1]}"
    finally:
        for runner in runners:
            await runner.cleanup()


class Rounds:
    """An autoscaler whose clock is ours: each round takes its period at once."""

    def __init__(self, settings: Settings, cluster: Cluster, scraper: Scraper) -> None:
        self.settings, self.now = settings, 0.0
        self.telemetry = Telemetry({tier: settings.targets[tier] for tier in settings.tiers}, 100.0)
        self.loop = Autoscaler(settings, cluster, scraper, self.telemetry, lambda: self.now)

    async def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now += self.settings.period_s
            await self.loop.round()


PLAIN = ["--tier", "prefill=1:4", "--tier", "decode=1:4", "--namespace", "serving", "--service-account", "/nowhere",
         "--settle-s", "0", "--average-s", "0", "--down-window-s", "60", "--down-step-window-s", "30"]  # fmt: skip


def play(fake: FakeCluster, scene: Callable[[Rounds], Awaitable[None]], *flags: str) -> None:
    async def go() -> None:
        async with served(fake) as url:
            settings = parse([*PLAIN, "--kubernetes-url", url, "--engine-port", str(fake.port),
                              "--render-port", str(fake.render_port), *flags])  # fmt: skip
            async with Cluster(url, "serving", "/nowhere", 5.0) as cluster, Scraper(2.0) as scraper:
                await scene(Rounds(settings, cluster, scraper))

    asyncio.run(go())


def two_tiers(prefill: int = 1, decode: int = 1) -> FakeCluster:
    fake = FakeCluster()
    fake.deploy("prefill", "aaa", prefill)
    fake.deploy("decode", "aaa", decode)
    return fake


def decode_load(total: float) -> Callable[[FakeCluster], None]:
    """KV that spreads over the decoders, in caches' worth."""

    def spread(fake: FakeCluster) -> None:
        for pod in fake.of("decode", fake.live):
            pod.kv = min(total / len(fake.of("decode", fake.live)), 1.0)

    return spread


def prefill_load(total: float) -> Callable[[FakeCluster], None]:
    def spread(fake: FakeCluster) -> None:
        for pod in fake.of("prefill", fake.live):
            pod.queue = total / len(fake.of("prefill", fake.live))

    return spread


def put(fake: FakeCluster, load: Callable[[FakeCluster], None]) -> None:
    fake.load = load
    load(fake)


def test_pressure_on_decode_scales_decode_alone() -> None:
    fake = two_tiers()

    async def scene(rounds: Rounds) -> None:
        await rounds.run(20)
        assert fake.writes == []
        put(fake, decode_load(2.0))
        await rounds.run(120)
        assert (fake.size("prefill"), fake.size("decode")) == (1, 3), "2 caches' worth at 0.7 each"
        put(fake, decode_load(0.1))
        await rounds.run(400)
        assert (fake.size("prefill"), fake.size("decode")) == (1, 1)

    play(fake, scene)


def test_a_queue_before_prefill_scales_prefill_alone() -> None:
    fake = two_tiers()

    async def scene(rounds: Rounds) -> None:
        put(fake, prefill_load(6.0))
        await rounds.run(60)
        assert (fake.size("prefill"), fake.size("decode")) == (3, 1)

    play(fake, scene)


def test_the_ratio_takes_the_other_tier_along() -> None:
    fake = two_tiers()

    async def scene(rounds: Rounds) -> None:
        put(fake, decode_load(3.0))
        await rounds.run(120)
        assert (fake.size("prefill"), fake.size("decode")) == (2, 4)

    play(fake, scene, "--ratio-min", "0.5", "--ratio-max", "2")


def test_the_idle_pod_is_marked_and_goes_first() -> None:
    fake = two_tiers(prefill=1, decode=3)
    oldest, middle, youngest = fake.of("decode")
    oldest.running, middle.running, youngest.running = 2.0, 0.0, 1.0
    youngest.cost = LEAVES_FIRST  # of an earlier try, when it was idle

    async def scene(rounds: Rounds) -> None:
        await rounds.run(100)
        assert fake.writes[:3] == [(youngest.name, None), (middle.name, LEAVES_FIRST), ("decode-aaa", 2)]
        assert fake.of("decode") == [oldest, youngest]

    play(fake, scene, "--down-step-window-s", "300")


def test_a_prefiller_whose_kv_is_yet_to_be_fetched_stays_before_an_empty_one() -> None:
    fake = two_tiers(prefill=2)
    old, young = fake.of("prefill")
    old.kv, young.kv = 0.0, 0.2

    async def scene(rounds: Rounds) -> None:
        await rounds.run(100)
        assert fake.of("prefill") == [young]

    play(fake, scene)


def test_it_follows_the_release_that_has_the_traffic_and_touches_no_other() -> None:
    fake = two_tiers()
    fake.deploy("prefill", "bbb", 1)
    fake.deploy("decode", "bbb", 2)
    for pod in fake.of("decode", "bbb"):
        pod.kv = 1.0

    async def scene(rounds: Rounds) -> None:
        await rounds.run(400)
        assert fake.writes == [], "a candidate under load is the gate's business"
        fake.live = "bbb"
        put(fake, decode_load(2.0))
        await rounds.run(60)
        assert fake.size("decode", "bbb") == 3
        put(fake, decode_load(0.1))
        await rounds.run(80)
        assert fake.size("decode", "bbb") == 3, "nothing is lowered so soon after traffic moved"
        await rounds.run(400)
        assert fake.size("decode", "bbb") == 1
        assert (fake.size("prefill"), fake.size("decode")) == (1, 1)
        assert all("aaa" not in name for name, _ in fake.writes)

    play(fake, scene, "--settle-s", "200")


@pytest.mark.parametrize("live", ["none", ""])
def test_without_a_live_release_nothing_is_done(live: str) -> None:
    fake = two_tiers()
    fake.live = live

    async def scene(rounds: Rounds) -> None:
        assert await rounds.loop.round() == "no_release"
        assert fake.writes == []

    play(fake, scene)


def test_a_stopped_release_stays_stopped_and_may_start_at_its_own_size() -> None:
    fake = two_tiers()

    async def scene(rounds: Rounds) -> None:
        for size in (0, 3):
            await rounds.run(200)
            fake.deploy("prefill", "aaa", size)
            fake.deploy("decode", "aaa", size)
        await rounds.run(50)
        assert fake.writes == [], "never raised from 0, and lowered a whole window later at the earliest"

    play(fake, scene)


def test_render_pods_scale_by_cpu_at_their_own_port() -> None:
    fake = two_tiers()
    fake.deploy("render", "aaa", 1)

    def spread(fake: FakeCluster) -> None:
        for pod in fake.of("render"):
            pod.cores = 2.0 / len(fake.of("render"))

    async def scene(rounds: Rounds) -> None:
        put(fake, spread)
        await rounds.run(200)
        assert fake.size("render") == 3, "2 cores at 0.7 a pod"
        assert fake.size("decode") == 1

    play(fake, scene, "--tier", "render=1:6")


def test_a_pod_that_does_not_answer_blocks_scale_down_only() -> None:
    fake = two_tiers(decode=2)
    fake.of("decode")[0].silent = True

    async def scene(rounds: Rounds) -> None:
        await rounds.run(300)
        assert fake.writes == []
        fake.of("decode")[1].queue = 8.0
        await rounds.run(20)
        assert fake.size("decode") == 4, "4 pods' worth of queue and one as at its target, of 4 at most"

    play(fake, scene)


def test_without_any_metrics_sizes_stay() -> None:
    fake = two_tiers(prefill=2, decode=3)
    for pod in fake.pods:
        pod.silent = True

    async def scene(rounds: Rounds) -> None:
        await rounds.run(300)
        assert fake.writes == []

    play(fake, scene)


def test_nothing_is_lowered_while_a_deployment_is_not_observed() -> None:
    fake = two_tiers(decode=3)
    fake.unobserved = True

    async def scene(rounds: Rounds) -> None:
        await rounds.run(200)
        assert fake.writes == []
        fake.unobserved = False
        await rounds.run(10)
        assert fake.size("decode") == 2

    play(fake, scene)


def test_what_somebody_else_sets_at_the_same_moment_stays() -> None:
    fake = two_tiers()
    put(fake, decode_load(2.0))

    def stop() -> None:
        fake.meddle = None
        fake.resize("decode-aaa", 0)

    fake.meddle = stop

    async def scene(rounds: Rounds) -> None:
        await rounds.run(100)
        assert fake.size("decode") == 0, "the release switch stopped it between our look and our write"
        assert fake.writes == []
        assert rounds.telemetry.registry.get_sample_value(
            "splitserve_autoscaler_set_failures_total", {"tier": "decode", "kind": "changed"}
        )

    play(fake, scene)


def test_two_at_once_do_one_thing() -> None:
    fake = two_tiers(decode=4)
    put(fake, decode_load(0.1))

    async def scene(rounds: Rounds) -> None:
        other = Rounds(rounds.settings, rounds.loop._cluster, rounds.loop._scraper)
        lowered: list[float] = []
        for _ in range(80):
            before = len(fake.writes)
            await asyncio.gather(rounds.run(5), other.run(5))
            lowered += [rounds.now for name, _ in fake.writes[before:] if name == "decode-aaa"]
        assert fake.size("decode") == 1
        assert all(after - before >= 30 for before, after in pairwise(lowered))

    play(fake, scene)


def test_a_dry_run_says_and_sets_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    fake = two_tiers()
    put(fake, decode_load(2.0))

    async def scene(rounds: Rounds) -> None:
        await rounds.run(30)
        assert fake.writes == []

    play(fake, scene, "--dry-run")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    said = [line for line in lines if line["event"] == "decision" and line["action"] == "up"]
    assert said
    assert said[0]["tier"] == "decode"
    assert said[0]["signal"] == "kv_usage"
    assert said[0]["signals"][0] == {"name": "kv_usage", "value": 1.0, "target": 0.7, "pods": 1, "proportional": True}


def test_a_steady_tier_is_told_of_once(capsys: pytest.CaptureFixture[str]) -> None:
    async def scene(rounds: Rounds) -> None:
        await rounds.run(100)

    play(two_tiers(), scene)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == ["release", "decision", "decision"]


def test_metrics_show_signals_sizes_and_reasons() -> None:
    fake = two_tiers()
    put(fake, decode_load(0.5))
    fake.of("prefill")[0].silent = True

    async def scene(rounds: Rounds) -> None:
        await rounds.run(5)
        read = rounds.telemetry.registry.get_sample_value
        prefix = "splitserve_autoscaler_"
        assert read(prefix + "signal_value", {"tier": "decode", "signal": "kv_usage"}) == 0.5
        assert read(prefix + "signal_target", {"tier": "decode", "signal": "kv_usage"}) == 0.7
        assert read(prefix + "wanted_replicas", {"tier": "decode"}) == 1
        assert read(prefix + "scrape_failures_total", {"tier": "prefill"}) == 1
        assert read(prefix + "live_release", {"release": "aaa"}) == 1
        held = {"tier": "prefill", "action": "hold", "reason": "no_metrics"}
        assert read(prefix + "decisions_total", held) == 1

    play(fake, scene)


def test_a_round_that_fails_changes_nothing_and_ends_nothing() -> None:
    fake = two_tiers()
    put(fake, decode_load(2.0))
    fake.broken = True

    async def scene(rounds: Rounds) -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(rounds.loop.run(stop))

        def ended(outcome: str) -> float:
            named = {"outcome": outcome}
            return rounds.telemetry.registry.get_sample_value("splitserve_autoscaler_rounds_total", named) or 0

        async def until(outcome: str) -> None:
            while ended(outcome) < 3:
                await asyncio.sleep(0.02)

        await asyncio.wait_for(until("failed"), 20)
        assert fake.writes == []
        fake.broken = False
        await asyncio.wait_for(until("decided"), 20)
        stop.set()
        await asyncio.wait_for(running, 5)

    play(fake, scene, "--period-s", "0.05")


def test_health_fails_when_rounds_no_longer_end() -> None:
    assert Telemetry({}, stale_s=60.0).healthy
    assert not Telemetry({}, stale_s=0.0).healthy


def test_the_labels_are_splitserves_own() -> None:
    from components.autoscaler import cluster

    assert (cluster.RELEASE_LABEL, cluster.TIER_LABEL) == (labels.RELEASE_LABEL, labels.TIER_LABEL)
    assert cluster.NO_RELEASE == labels.NO_RELEASE


def test_the_token_is_read_anew_and_faults_name_what_was_asked(tmp_path: Path) -> None:
    fake = two_tiers()

    async def go() -> None:
        async with served(fake) as url, Cluster(url, "serving", str(tmp_path), 5.0) as cluster:
            for token in ("one", "two"):
                (tmp_path / "token").write_text(f"{token}\n")
                assert await cluster.live_release("splitserve") == "aaa"
            assert await cluster.live_release("other") is None
            with pytest.raises(Changed, match="found 1 replicas, wanted 3"):
                await cluster.scale("decode-aaa", 3, 4)
            fake.broken = True
            with pytest.raises(ClusterFault, match="services/splitserve: 500 etcd is gone"):
                await cluster.live_release("splitserve")
        async with Cluster(f"http://{HOST}:1", "serving", str(tmp_path), 1.0) as nobody:
            with pytest.raises(ClusterFault, match="GET /api/v1"):
                await nobody.live_release("splitserve")

    asyncio.run(go())
    assert fake.tokens == {"Bearer one", "Bearer two"}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "autoscaler.pyz"
    path.write_bytes(packed())
    return path


def test_the_program_is_one_file_of_its_own_modules(program: Path) -> None:
    assert packed() == packed()
    names = zipfile.ZipFile(program).namelist()
    assert "__main__.py" in names
    assert "autoscaler/packed.py" not in names
    found = subprocess.run(
        [sys.executable, str(program), "--help"], cwd="/", capture_output=True, text=True, check=True
    )
    assert "--tier NAME=MIN:MAX" in found.stdout


def test_the_program_runs_scales_answers_and_ends_on_sigterm(program: Path) -> None:
    fake = two_tiers()
    put(fake, decode_load(2.0))

    async def go() -> None:
        async with served(fake) as url:
            port = free_port()
            flags = [*PLAIN, "--kubernetes-url", url, "--engine-port", str(fake.port), "--metrics-port", str(port),
                     "--host", HOST, "--period-s", "0.1", "--up-window-s", "0.2", "--up-step-window-s", "0.1"]  # fmt: skip
            process = await asyncio.create_subprocess_exec(
                sys.executable, str(program), *flags, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
            for _ in range(300):
                if fake.size("decode") == 3:
                    break
                await asyncio.sleep(0.1)
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://{HOST}:{port}/health") as answer:
                    assert answer.status == 200
                async with session.get(f"http://{HOST}:{port}/metrics") as answer:
                    assert 'splitserve_autoscaler_live_release{release="aaa"} 1.0' in await answer.text()
            process.send_signal(signal.SIGTERM)
            out, error = await asyncio.wait_for(process.communicate(), 20)
            assert (process.returncode, error) == (0, b"")
            events = [json.loads(line)["event"] for line in out.splitlines()]
            assert (events[0], events[-1]) == ("start", "end")
            assert fake.size("decode") == 3

    asyncio.run(go())
