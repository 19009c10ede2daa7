"""The signatures, root causes first: where several lines explain one verdict, the first of this table leads.

Texts are those of vllm 0.32.0 with nixl 1.5.1 and the UCX that it carries, unless another source is named.
"""

from __future__ import annotations

from components.diagnosis.signature import BROKEN, NO_KV, NOT_STARTED, SLOW, Signature

_NIXL_WORKER = "vllm/distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py"
_NIXL = ".nixl_cu13.mesonpy.libs/libnixl.so"
_LIBFABRIC = ".nixl_cu13.mesonpy.libs/plugins/libplugin_LIBFABRIC.so"
_SCHEDULER = "kubernetes 1.34 pkg/scheduler/framework/plugins/noderesources/fit.go"

SIGNATURES = (
    Signature(
        "no-connector", "Got kv_transfer_params, but no KVConnector found",
        "this engine was asked for a KV transfer and runs without a connector: it computes every prompt itself",
        "give its tier `--kv-transfer-config`: look for an argument, another image or an admission webhook that takes it away",
        NO_KV, "https://github.com/kserve/kserve/issues/5987", "vllm/v1/engine/core.py",
    ),
    Signature(
        "no-encoder-connector", "Got ec_transfer_params, but no ECConnector found",
        "this engine was given an embedding and runs without an encoder connector: it encodes every image itself",
        "give its tier `--ec-transfer-config`", frozenset({"encoder-never-used", "encoder-failed"}),
        "vllm 0.32.0 v1/engine/core.py", "vllm/v1/engine/core.py",
    ),
    Signature(
        "tiers-differ", "NIXL compatibility hash mismatch",
        "the two tiers' KV caches are not of one kind, and the handshake was refused",
        "same image, model, dtype, block layout, attention backend and transfer mode (pull or push) on both tiers",
        BROKEN | NO_KV | {"wrong-answer"}, "https://github.com/vllm-project/vllm/pull/29503", _NIXL_WORKER,
    ),
    Signature(
        "another-engine-answers", "Remote NIXL agent engine ID mismatch",
        "another engine than the one that was named answers at the side channel",
        "set VLLM_NIXL_SIDE_CHANNEL_HOST to the pod's own IP, and a port of its own for each engine that shares one; after a "
        "prefiller's restart, restart the decoders that knew the old one",
        BROKEN | NO_KV, "https://github.com/vllm-project/vllm/issues/27083", _NIXL_WORKER,
    ),
    Signature(
        "peer-gone", "NIXL_ERR_REMOTE_DISCONNECT",
        "the other side ended or closed the connection while blocks were read",
        "read why the other tier's pod ended; a decoder may keep the dead peer until it is restarted itself",
        BROKEN, "https://github.com/vllm-project/vllm/issues/49238",
    ),
    Signature(
        "blocks-expired", "Releasing expired KV blocks for request",
        "the prefiller freed blocks that nobody had fetched within the lease: the decoder asked too late or never",
        "raise `kv_lease_duration` (30 s) in the connector's extra config, or take load off the decoders",
        BROKEN | NO_KV | {"read-after-expiry"}, "vllm 0.32.0 nixl/base_worker.py", _NIXL_WORKER,
    ),
    Signature(
        "handshake-failed", "NIXL transfer failure: handshake_failed",
        "the decoder did not reach the prefiller's side channel, or was refused",
        "open the side channel's port (`engine.sideChannelPort`, one more for each data-parallel rank) from decode to prefill: "
        "NetworkPolicy, security group, VLLM_NIXL_SIDE_CHANNEL_HOST",
        BROKEN | NO_KV, "vllm 0.32.0 nixl/base_worker.py", _NIXL_WORKER, 'failure_type="handshake_failed"',
    ),
    Signature(
        "efa-over-ucx", "Amazon EFA(s) were detected, but the UCX backend was configured",
        "the node has EFA and NIXL uses UCX on it, which emulates RDMA in software",
        "`connector.backend: LIBFABRIC` (`\"backends\": [\"LIBFABRIC\"]` in the connector's extra config)",
        SLOW, "https://github.com/ai-dynamo/nixl/issues/909", _NIXL,
    ),
    Signature(
        "no-read-over-pcie", "cuda-ipc get zcopy disabled as no nvlinks detected",
        "UCX reads from another GPU over cuda_ipc only where it finds NVLink: blocks that are pulled go through the host's memory",
        "UCX_CUDA_IPC_ENABLE_GET_ZCOPY=on on both tiers where the GPUs have peer access (`nvidia-smi topo -p2p r`), or a "
        "connector that pushes", SLOW, "https://github.com/ai-dynamo/nixl/issues/1097", "nixl_cu13.libs/ucx/libuct_cuda.so.0.0.0",
    ),
    Signature(
        "no-gpu-memory-registration", "VRAM memory requested but provider does not support FI_HMEM",
        "libfabric can't register GPU memory: every block goes through host memory",
        "an image whose libfabric and EFA packages fit the node's driver, and the `efa` provider, not "
        "`tcp`", SLOW, "nixl 1.5.1 libfabric plugin", _LIBFABRIC,
    ),
    Signature(
        "rail-without-gpu-memory", ", retrying without FI_HMEM",
        "an EFA rail was opened without GPU memory: its transfers go through the host",
        "check the NVIDIA driver's peer memory (dmabuf) on the node and the EFA packages of the image",
        SLOW, "nixl 1.5.1 libfabric plugin", _LIBFABRIC,
    ),
    Signature(
        "locked-memory", "Please set max locked memory (ulimit -l) to 'unlimited'",
        "memory for RDMA may not be locked, so it can't be registered",
        "`platform.hardware.memoryLock: ipc-lock`, or raise the container runtime's LimitMEMLOCK on the nodes",
        NOT_STARTED | BROKEN | SLOW, "https://github.com/openucx/ucx/issues/8229", "nixl_cu13.libs/ucx/libuct_ib.so.0.0.0",
    ),
    Signature(
        "no-transport", "no usable transports/devices (asked",
        "UCX was told to use transports or devices that are not there",
        "correct UCX_TLS and UCX_NET_DEVICES, and request the RDMA device for the pod (`resources.extended`)",
        NOT_STARTED | BROKEN, "ucx of nixl 1.5.1 ucp/core/ucp_context.c", "nixl_cu13.libs/libucp-b39b3ed9.so.0.0.0",
    ),
    Signature(
        "no-backend", "unsupported backend '",
        "this NIXL has no such backend", "`connector.backend` that the image's NIXL holds, or another image",
        NOT_STARTED, "nixl 1.5.1 nixl_agent.cpp", _NIXL,
    ),
    Signature(
        "port-taken", "Address already in use",
        "two processes want one port: two engines on one node with host network, or ranks whose ports overlap",
        "`engine.port` and `engine.sideChannelPort` apart for engines that share an address",
        NOT_STARTED | BROKEN, "https://github.com/vllm-project/vllm/issues/20965",
    ),
    Signature(
        "no-memory-for-cache", "No available memory for the cache blocks",
        "the weights leave no GPU memory for a KV cache",
        "raise `engine.gpuMemoryUtilization`, more GPUs an engine (`engine.parallel.tensor`), or a smaller model",
        NOT_STARTED, "vllm 0.32.0 v1/core/kv_cache_utils.py", "vllm/v1/core/kv_cache_utils.py",
    ),
    Signature(
        "context-too-long", "cache is needed, which is larger than the available KV cache ",
        "one prompt of the full length does not fit into the KV cache",
        "lower `engine.maxModelLen`, or raise `engine.gpuMemoryUtilization` or `engine.parallel.tensor`",
        NOT_STARTED, "vllm 0.32.0 v1/core/kv_cache_utils.py", "vllm/v1/core/kv_cache_utils.py",
    ),
    Signature(
        "gpu-in-use", "is less than desired GPU memory utilization ",
        "another process holds memory of this GPU",
        "end it (nvidia-smi), or lower `engine.gpuMemoryUtilization`",
        NOT_STARTED, "vllm 0.32.0 v1/worker/utils.py", "vllm/v1/worker/utils.py",
    ),
    Signature(
        "heads-not-divisible", " must be divisible by tensor parallel size ",
        "the model's attention heads can't be split over so many GPUs",
        "an `engine.parallel.tensor` that divides them",
        NOT_STARTED, "vllm 0.32.0 config/model.py", "vllm/config/model.py",
    ),
    Signature(
        "unknown-argument", "unrecognized arguments:",
        "vLLM has no such argument in this version",
        "correct the tier's `extraArgs`, or take an image of the version that has it",
        NOT_STARTED, "python 3.12 argparse.py", "vllm/utils/argparse_utils.py",
    ),
    Signature(
        "hugepages-missing", "Insufficient hugepages-2Mi",
        "no node has the huge pages that EFA's libfabric asks for",
        "nodes with `vm.nr_hugepages`: on AWS the stack's own launch templates set it (docs/how-to/build-on-aws.md)",
        NOT_STARTED, "https://github.com/awslabs/awsome-distributed-ai/pull/1230",
    ),
    Signature(
        "efa-missing", "Insufficient vpc.amazonaws.com/efa",
        "no node offers EFA devices: no device plugin, an image without EFA, or all are taken",
        "`splitserve discover` lists what nodes offer; install the device plugin, or lower `resources.extended`",
        NOT_STARTED, _SCHEDULER,
    ),
    Signature(
        "rdma-missing", "Insufficient rdma/",
        "no node offers this RDMA resource: another name, no device plugin, or all are taken",
        "`splitserve discover` lists the names that nodes offer; set `resources.extended` to one of them",
        NOT_STARTED, _SCHEDULER,
    ),
    Signature(
        "gpu-missing", "Insufficient nvidia.com/gpu",
        "no node has that many GPUs free", "free or add GPUs; `rollout.strategy: swap` needs none beside the live release's",
        NOT_STARTED, _SCHEDULER,
    ),
    Signature(
        "not-tolerated", "had untolerated taint",
        "the nodes that would fit have a taint that the pods don't tolerate",
        "remove the taint, or lead the pods to other nodes by `platform.nodeSelector`",
        NOT_STARTED, "kubernetes 1.34 pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go",
    ),
)  # fmt: skip
