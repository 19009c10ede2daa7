"""The load generator runs on the release's own image without its accelerators, and is always removed."""

from __future__ import annotations

import copy
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from components.bench import job_run
from components.bench.generator import generator_command
from components.bench.job_run import TookTooLong, front_door, run_job, running
from components.bench.job_spec import job
from components.bench.load import Load
from components.release.cluster import ClusterFault
from components.serving.spec import ModelSource
from tests.unit.test_release import MODEL, build
from tests.unit.test_settings import changed, values

URL = "http://198.19.0.7:8000"


def release(**more: Any) -> Any:
    settings = values()
    for path, value in more.items():
        settings = changed(path.replace("__", "."), value)
    return build(settings)


def command_of(pod: dict[str, Any]) -> list[str]:
    return generator_command(pod["containers"][0], "tiny", URL, Load(512, 16, 100), 0.4, 42)


def spec_of(pod: dict[str, Any], key: tuple[str, str] | None = None) -> dict[str, Any]:
    return job("bench-x", "abc", pod, command_of(pod), 900, key)


def container(body: dict[str, Any]) -> dict[str, Any]:
    return body["spec"]["template"]["spec"]["containers"][0]


def test_the_command_is_vllms_own_with_poisson_arrivals_and_no_download() -> None:
    command = command_of(release().pods["prefill"])
    assert command[:5] == ["python3", "-m", "vllm.entrypoints.cli.main", "bench", "serve"]
    pairs = dict(pairwise(command[5:]))
    wanted = {
        "--base-url": URL, "--endpoint": "/v1/completions", "--model": "tiny", "--tokenizer": "/models/tiny",
        "--dataset-name": "random", "--random-input-len": "512", "--random-output-len": "16", "--num-prompts": "100",
        "--request-rate": "0.4", "--burstiness": "1.0", "--seed": "42",
    }  # fmt: skip
    assert {key: pairs.get(key) for key in wanted} == wanted
    assert {"--ignore-eos", "--save-result", "--save-detailed"} <= set(command)
    assert "--num-warmups" not in command


@pytest.mark.parametrize(
    "arguments", [["--tokenizer", "/models/other"], ["--tokenizer=/models/other"], ["--tokenizer", "/models/other", "-x"]]
)  # fmt: skip
def test_an_engines_own_tokenizer_is_the_generators(arguments: list[str]) -> None:
    pod = release(prefill__extraArgs=[*arguments, "--trust-remote-code"]).pods["prefill"]
    command = command_of(pod)
    assert command[command.index("--tokenizer") + 1] == "/models/other" and "--trust-remote-code" in command


def test_the_pod_has_the_engines_image_model_and_place_and_none_of_its_devices() -> None:
    pod = release(prefill__resources={"cpu": "1", "memory": "2Gi", "shm": "1Gi", "extended": {"nvidia.com/gpu": 1}}).pods["prefill"]  # fmt: skip
    assert "nvidia.com/gpu" in pod["containers"][0]["resources"]["limits"]  # else nothing is left out below
    body = spec_of(pod)
    rendered, inside = body["spec"]["template"]["spec"], container(body)
    assert inside["image"] == pod["containers"][0]["image"] and rendered["nodeSelector"] == pod["nodeSelector"]
    assert [m["mountPath"] for m in inside["volumeMounts"]] == ["/tmp", "/models/tiny"]
    assert {v["name"] for v in rendered["volumes"]} == {"scratch", "model"}
    assert set(inside["resources"]["limits"]) == {"memory"} and "resourceClaims" not in rendered
    assert inside["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert inside["securityContext"]["readOnlyRootFilesystem"] is True
    assert rendered["securityContext"] == pod["securityContext"] and rendered["restartPolicy"] == "Never"


def test_an_engines_right_to_lock_memory_is_not_the_generators() -> None:
    pod = copy.deepcopy(release().pods["prefill"])
    pod["containers"][0]["securityContext"]["capabilities"]["add"] = ["IPC_LOCK"]
    assert container(spec_of(pod))["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_job_ends_and_goes_by_itself_and_no_service_finds_its_pod() -> None:
    body = spec_of(release().pods["prefill"])
    assert body["spec"]["activeDeadlineSeconds"] == 900 and body["spec"]["backoffLimit"] == 0
    assert body["spec"]["ttlSecondsAfterFinished"] > 0
    labels = body["spec"]["template"]["metadata"]["labels"]
    assert not {"splitserve.dev/release", "splitserve.dev/tier"} & set(labels)
    assert labels["app.kubernetes.io/component"] == "bench"


def environment(body: dict[str, Any]) -> dict[str, Any]:
    return {e["name"]: e.get("value", e.get("valueFrom")) for e in container(body)["env"]}


def test_a_model_folder_means_offline_and_the_service_is_reached_past_proxies() -> None:
    found = environment(spec_of(release().pods["prefill"]))
    assert found["HF_HUB_OFFLINE"] == found["TRANSFORMERS_OFFLINE"] == "1"
    assert found["NO_PROXY"] == found["no_proxy"] == "198.19.0.7"
    assert "OPENAI_API_KEY" not in found


def test_a_model_by_name_may_be_downloaded_with_the_engines_token() -> None:
    source = ModelSource(repository="org/model", revision="a" * 40, token_secret="hf")
    pod = build(model=type(MODEL)("tiny", source, "digest", MODEL.geometry)).pods["prefill"]
    found = environment(spec_of(pod))
    assert "HF_HUB_OFFLINE" not in found and found["HF_TOKEN"]["secretKeyRef"]["name"] == "hf"


def test_an_api_key_is_named_and_never_written() -> None:
    found = environment(spec_of(release().pods["prefill"], ("clients", "api-key")))
    assert found["OPENAI_API_KEY"] == {"secretKeyRef": {"name": "clients", "key": "api-key"}}


class FakeCluster:
    """A Job whose status is taken from a list, one a look; the last one stays."""

    namespace = "serving"

    def __init__(self, *statuses: Any, pod: Any = None) -> None:
        self.statuses = list(statuses)
        self.pod = pod or SimpleNamespace(name="bench-pod", trouble=None, state="Running")
        self.removed: list[str] = []
        self.batch = SimpleNamespace(
            create_namespaced_job=self._create,
            read_namespaced_job=self._read,
            delete_namespaced_job=lambda name, *_, **__: self.removed.append(name),
            list_namespaced_job=lambda *_, **__: SimpleNamespace(items=self.jobs),
        )
        self.refuse: ApiException | None = None
        self.jobs: list[Any] = []

    def _create(self, *_: Any, **__: Any) -> None:
        if self.refuse:
            raise self.refuse

    def _read(self, *_: Any, **__: Any) -> Any:
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if isinstance(status, BaseException):
            raise status
        return SimpleNamespace(status=status)

    def select(self, selector: str, *, ending: bool) -> list[Any]:
        return [self.pod] if self.pod else []

    def log(self, pod: str) -> str:
        return f"log of {pod}"

    def last_words(self, pod: str) -> str:
        return "ValueError: nothing to tokenize"


def status(succeeded: int = 0, failed: int = 0, reason: str = "", message: str = "") -> Any:
    conditions = [SimpleNamespace(type="Failed", reason=reason, message=message)] if reason else None
    return SimpleNamespace(succeeded=succeeded, failed=failed, conditions=conditions)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_run, "POLL_S", 0.0)


def run(cluster: Any, limit_s: int = 60, tick: Any = lambda: None) -> str:
    return run_job(cluster, {"metadata": {"name": "bench-1"}}, limit_s, tick)


def test_a_run_ends_with_its_log_and_nothing_left() -> None:
    cluster, ticks = FakeCluster(status(), status(), status(succeeded=1)), []
    assert run(cluster, tick=lambda: ticks.append(1)) == "log of bench-pod"
    assert cluster.removed == ["bench-1"] and len(ticks) == 2


def interrupted() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("cluster", "error", "words"),
    [
        (FakeCluster(status(failed=1)), ClusterFault, "failed: ValueError: nothing to tokenize"),
        (FakeCluster(status(failed=1, reason="DeadlineExceeded")), TookTooLong, "within 60 s"),
        (FakeCluster(ApiException(status=404, reason="Not Found")), ClusterFault, "removed by somebody else"),
        (FakeCluster(status(), pod=SimpleNamespace(name="p", trouble="ErrImagePull: x", state="")), ClusterFault,
         "does not start: ErrImagePull"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_said_and_the_job_is_removed(cluster: FakeCluster, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        run(cluster)
    assert cluster.removed == ["bench-1"]


def test_ctrl_c_removes_the_job() -> None:
    cluster = FakeCluster(status())
    with pytest.raises(KeyboardInterrupt):
        run(cluster, tick=interrupted)
    assert cluster.removed == ["bench-1"]


def test_a_refused_job_is_reported_with_the_clusters_words() -> None:
    cluster = FakeCluster(status())
    cluster.refuse = ApiException(status=403, reason="Forbidden")
    with pytest.raises(ClusterFault, match="Job bench-1: 403 Forbidden"):
        run(cluster)


def test_an_api_server_that_is_away_for_a_moment_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    away = ApiException(status=503, reason="Service Unavailable")
    assert run(FakeCluster(away, away, status(succeeded=1))) == "log of bench-pod"
    monkeypatch.setattr(job_run, "PATIENCE_S", -1)
    with pytest.raises(ClusterFault, match="503"):
        run(FakeCluster(away))


def test_a_pod_without_a_node_is_given_up_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    pod = SimpleNamespace(name="p", trouble=None, state="not scheduled: 0/1 nodes: Insufficient memory")
    monkeypatch.setattr(job_run, "SCHEDULE_LIMIT_S", -1)
    with pytest.raises(ClusterFault, match="Insufficient memory"):
        run(FakeCluster(status(), pod=pod))


def test_only_running_benchmarks_count() -> None:
    cluster: Any = FakeCluster(status())
    cluster.jobs = [
        SimpleNamespace(metadata=SimpleNamespace(name=name), status=SimpleNamespace(succeeded=done, failed=0))
        for name, done in (("done", 1), ("busy", 0))
    ]
    assert running(cluster) == ["busy"]


@pytest.mark.parametrize(
    ("address", "url"), [("198.19.0.7", "http://198.19.0.7:80"), ("fd00::7", "http://[fd00::7]:80")]
)
def test_the_front_door_is_asked_inside_the_cluster(address: str, url: str) -> None:
    spec = SimpleNamespace(
        selector={"splitserve.dev/release": "abc"}, cluster_ip=address, ports=[SimpleNamespace(port=80)]
    )
    core = SimpleNamespace(read_namespaced_service=lambda *_, **__: SimpleNamespace(spec=spec))
    cluster: Any = SimpleNamespace(core=core, namespace="serving")
    assert front_door(cluster) == (url, "abc")
    spec.selector = {"splitserve.dev/release": "none"}
    assert front_door(cluster)[1] is None
