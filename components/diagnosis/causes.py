"""The causes of verdicts: what each means, where to look, and what to do. Pure data.

`components/release/verdict.py` and `components/check` decide which one applies; the pages of verdicts and the runbook
are made from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["pass", "fail", "inconclusive"]
Judge = Literal["gate", "check", "idle probe"]
"""Who gives it: the gate (and those that judge as it does), `splitserve check` alone, the idle probe alone."""


@dataclass(frozen=True)
class Cause:
    """One word of a verdict. `look`: where the evidence is; `fix`: the way out, empty after a pass."""

    name: str
    outcome: Outcome
    means: str
    look: str = ""
    fix: str = ""
    judge: Judge = "gate"


_SAMPLES = "`evidence.pairs[].aged[]` of the output `gate`"
_LOGS = "the `clue:` lines under the verdict, then the named pods' logs"

GATE = (
    Cause("fast", "pass", "bytes moved, as many as the geometry says, under the limit, with the right answer"),
    Cause("collocated", "pass", "no KV is transferred in this topology; its router serves"),
    Cause("content-only", "pass",
          "the connector's transfers can't be measured, `gate.unmeasured: accept-content-only`: prompts arrived, "
          "answers are right"),
    Cause("not-ready", "fail", "a pod does not start, or not in time",
          "the message quotes the pod's state and the last error of its log; the `clue:` lines explain it",
          "correct the configuration that the message names; `engine.loadLimitS` and `gate.readyLimitS` where loading "
          "is slow"),
    Cause("pod-ended", "fail", "a container ended while it was measured",
          "the message quotes its exit code and log; `OOMKilled` is memory",
          "more `engine.resources.memory` after `OOMKilled`; else what its log says"),
    Cause("failed-transfers", "fail", "the decoder counted failed transfers",
          f"`failed` in {_SAMPLES}; the decoder's log has the handshake; {_LOGS}",
          "same image, model name, dtype and block size on both tiers; ports reachable"),
    Cause("never-disaggregated", "fail", "200 OK, 0 bytes moved",
          "`bytes` and `transfers` 0 or null in the samples; the decoder's command line in its log",
          "something overrides `--kv-transfer-config` on the decode tier: an argument, another image, an admission "
          "webhook"),
    Cause("prefill-not-served", "fail", "the prefiller's own counter shows no prompt",
          "`prefill_tokens` in the samples is 0", "labels and addresses: another pod answers at the prefiller's"),
    Cause("wrong-bytes", "fail", "more than 5 % off the model's geometry",
          "`bytes` of a sample beside the table's `wanted MB`; dtype and block size at the head of the pods' logs",
          "dtype or layout differs from the stack file: compare `engine.dtype` and `engine.kvCacheDtype`"),
    Cause("wrong-answer", "fail", "answers differ from the prefiller's own",
          "`answer` and `reference` of each sample", "same image and attention backend on both tiers; compare with "
          "another `connector.backend`"),
    Cause("slow-link", "fail", "the mean reaches the limit, fresh too",
          "`mean ms` and `GB/s` in the table beside what `splitserve expect` says of the link",
          "peer access (`nvidia-smi topo -p2p r`) on one host, RDMA devices (`engine.resources.extended`) between "
          "hosts, `connector.backend`"),
    Cause("fragmented-cache", "fail", "only the aged mean reaches the limit",
          "`desc.` in the table: many times more aged than fresh", "raise `engine.blockSize`"),
    Cause("slower-than-expected", "fail",
          "under the limit, but more than `gate.maxRatio` times what this hardware should take",
          "the message has measured and expected ms; the transport in the engines' logs",
          "not over the planned path: compare the transport in use with `connector.backend`"),
    Cause("router-failed", "fail", "the release's router does not serve", "`evidence.router.error`; its log",
          "what its log says"),
    Cause("router-not-disaggregated", "fail", "the router's request moved no KV",
          "`evidence.router`; the router's arguments in its pod", "its arguments and selectors"),
    Cause("render-failed", "fail", "a render pod or the gateway does not serve", "`evidence.render`; its log",
          "what its log says"),
    Cause("render-differs", "fail",
          "a render pod makes other tokens of a prompt, or the gateway other answers, than an engine",
          "`evidence.render`: both token lists or answers",
          "same image, model files and `chat` settings; `render.extraArgs`"),
    Cause("encoder-failed", "fail", "an encoder, an engine or the gateway does not serve a request with an image",
          "`evidence.encoder`; the logs of the pods that are named", "what those logs say"),
    Cause("encoder-never-used", "fail",
          "an engine encodes images itself, under the name of an embedding that it should load",
          "`evidence.encoder`; `--ec-transfer-config` in both tiers' pods",
          "`--ec-transfer-config` of both tiers; a folder or side channel that they share"),
    Cause("encoder-differs", "fail",
          "answers to a moved embedding, or to images through the gateway, differ from an engine's own",
          "`evidence.encoder`: both answers", "same image, model files, dtype and `chat` settings"),
    Cause("encoder-not-routed", "fail", "images went through the gateway and no encoder was asked",
          "`evidence.encoder`; the gateway's log", "the gateway's log and arguments"),
    Cause("no-nodes", "inconclusive",
          "the candidate's node group got no nodes: no capacity, a quota, no free addresses",
          "the message quotes AWS's own reason; `splitserve preflight --stack-file FILE` asks about the rest",
          "wait for capacity or reserve it (`platform.aws.nodeGroups.*.capacity`)"),
    Cause("unmeasurable", "inconclusive", "the connector's transfers can't be measured",
          "[connectors](connectors.md), column measured", "another connector, or `gate.unmeasured`"),
    Cause("probe-failed", "inconclusive", "the probe's Job did not run or end",
          "`kubectl -n splitserve get events`: quota, admission, image", "remove what stopped it"),
    Cause("pair-unmeasured", "inconclusive", "a pod has no metrics or does not answer",
          "`evidence.pairs[].error`", "what the message says: statistics switched off, a port that is closed"),
    Cause("no-pairs", "inconclusive", "there was no pair of prefill and decode pods to measure",
          "`kubectl -n splitserve get pods`", "`prefill.replicas` and `decode.replicas` of at least 1"),
    Cause("router-not-asked", "inconclusive", "the probe did not ask the release's router",
          "`kubectl -n splitserve get pods`", "`router.replicas` of at least 1, and a pod that is ready"),
    Cause("render-not-asked", "inconclusive", "the probe did not ask the release's render tier",
          "`kubectl -n splitserve get pods`", "a render pod that is ready"),
    Cause("encoder-not-asked", "inconclusive", "the probe did not ask the release's encoder tier",
          "`kubectl -n splitserve get pods`", "an encoder pod that is ready"),
    Cause("encoder-unmeasured", "inconclusive", "the render tier takes no image", "`evidence.encoder`",
          "see the message: the probe asks with an image"),
    Cause("encoder-blind", "inconclusive", "the model answers alike whatever an image shows", "`evidence.encoder`",
          "`gate.answerTokens`"),
)  # fmt: skip


def _of_check(name: str, outcome: Outcome, means: str, look: str = "", fix: str = "") -> Cause:
    return Cause(name, outcome, means, look, fix, judge="check")


CHECK = (
    _of_check("part-arrived", "fail", "fewer tokens arrived than the prompt has; without the model's geometry",
        "`pairs` of `splitserve check --json`", "give `--model-config`, and mend as for `wrong-bytes`"),
    _of_check("read-after-expiry", "fail", "by a log: transfers ended after their blocks had expired",
        "`Releasing expired KV blocks` in the log", "`kv_lease_duration` in the connector's extra config, or fewer requests "
        "a decoder"),
    _of_check("log-only", "pass", "by a log: transfers were fast and none failed; a log says nothing of requests that moved "
        "nothing, of answers, or of wanted bytes"),
    _of_check("aged-unknown", "inconclusive", "the cache could not be aged, and without the model its aged time is not known",
        "`basis` of `splitserve check --json`", "give `--model-config`, or more time: `--age 600`"),
    _of_check("bytes-inconsistent", "inconclusive", "bytes a token differ between two prompt lengths",
        "`basis` of `splitserve check --json`", "give `--model-config`"),
    _of_check("bytes-unknown", "inconclusive", "the bytes could not be held against anything",
        "`basis` of `splitserve check --json`", "give `--model-config`"),
    _of_check("no-connector-seen", "inconclusive", "no series of a transfer on either side, and nothing arrived: no connector, or "
        "Mooncake's, whose log can be judged", "`/metrics` of both engines; their command lines",
        "give both engines `--kv-transfer-config`; of Mooncake judge the prefiller's log by `--decode-log`"),
    _of_check("no-transfer-logged", "inconclusive", "no line of a transfer in the log",
        "the log: `KV Transfer metrics`, every 10 s with traffic", "a longer log, or the other side's"),
    _of_check("pod-deleted", "inconclusive", "with selectors: Kubernetes says that a pod was deleted while it was measured",
        "`kubectl get events`: a rollout, a drain of its node, somebody", "check again when the rollout is over"),
    _of_check("several-pods", "inconclusive", "a URL answers from more than one process: another start time, counters that go "
        "backwards or don't move with our requests", "what the URL is: a Service, a load balancer",
        "give each engine's own URL"),
    _of_check("same-engine", "inconclusive", "two URLs are one engine", "the URLs", "one URL an engine"),
    _of_check("different-models", "inconclusive", "the URLs serve different models", "`/v1/models` of each", "the URLs of one "
        "deployment"),
    _of_check("other-model", "inconclusive", "the engines don't serve what `--model` names", "`/v1/models`", "leave `--model` out"),
    _of_check("needs-key", "inconclusive", "401 or 403", "the engines' API key", "`--api-key-env`"),
    _of_check("no-answer", "inconclusive", "nothing in time", "whether the address can be reached from here",
        "run it where the pods' network is, or forward ports; `--request-limit-s`"),
    _of_check("not-serving", "inconclusive", "an error of the server", "the engine's log", "what the log says"),
    _of_check("not-vllm", "inconclusive", "something else answers", "what listens at the URL", "the engine's own URL"),
    _of_check("not-a-router", "inconclusive", "what `--router` names is none", "what listens at the URL", "the router's URL"),
    _of_check("no-metrics", "inconclusive", "the engine exports no statistics", "`/metrics`", "take `--disable-log-stats` away"),
    _of_check("other-metrics", "inconclusive", "the engine's series have other names: another version", "`/metrics`",
        "vLLM's version, and `--connector`"),
    _of_check("context-too-short", "inconclusive", "the prompt does not fit the model's length", "`/v1/models`: `max_model_len`",
        "a shorter `--prompt-tokens`"),
    _of_check("took-too-long", "inconclusive", "`--limit-s` was over", "the message", "`--limit-s`, fewer `--samples`, `--age off`"),
    _of_check("no-pods", "inconclusive", "no pod has these labels", "`kubectl get pods -l`", "the selectors and the namespace"),
    _of_check("cluster", "inconclusive", "the cluster refused or does not answer", "the message", "rights and address"),
    _of_check("kubeconfig", "inconclusive", "the kubeconfig can't be used", "the message", "`--kubeconfig`, `--context`"),
    _of_check("usage", "inconclusive", "wrong arguments", "the message", "`splitserve check --help`"),
    _of_check("dtype", "inconclusive", "the KV cache's dtype is not known", "the message", "`--dtype`"),
)  # fmt: skip

IDLE = (
    Cause("busy", "pass", "clients use the release: their own transfers are the samples", judge="idle probe"),
)  # fmt: skip

CAUSES = (*GATE, *CHECK, *IDLE)
