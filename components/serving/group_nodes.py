"""What each pod of an engine over several nodes is told of the others.

The ranks meet at the first pod: a TCP store on `--master-port`, and for data-parallel ranks of other nodes a
handshake on `--data-parallel-rpc-port` (vllm 0.32 `distributed/parallel_state.py`
init_distributed_environment, `entrypoints/cli/serve.py` run_headless). The controller gives every container
the leader's name and its own place in the group (lws 0.7.0 `pkg/utils/pod/pod_utils.go` AddLWSVariables).
"""

from __future__ import annotations

from typing import Any

from components.serving.spec import EngineSpec

LEADER = "$(LWS_LEADER_ADDRESS)"
PLACE = "$(LWS_WORKER_INDEX)"
HEADLESS = "--headless"
"""No HTTP server: only the first pod of a group is asked."""


def node_arguments(engine: EngineSpec) -> dict[str, str]:
    """vLLM's arguments; empty for an engine on one node."""
    if engine.nodes == 1:
        return {}
    arguments = {
        "--nnodes": str(engine.nodes),
        "--node-rank": PLACE,
        "--master-addr": LEADER,
        "--master-port": str(engine.master_port),
    }
    if engine.data_parallel > 1:
        arguments |= {"--data-parallel-address": LEADER, "--data-parallel-rpc-port": str(engine.data_rpc_port)}
    return arguments


def node_environment(engine: EngineSpec) -> list[dict[str, Any]]:
    """The address that a pod's ranks tell the others; vLLM would else guess it from the way to the internet."""
    if engine.nodes == 1:
        return []
    return [{"name": "VLLM_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]


def node_ports(engine: EngineSpec) -> list[dict[str, Any]]:
    """Where the leader listens for the other pods of its group."""
    if engine.nodes == 1:
        return []
    ports = [{"name": "ranks", "containerPort": engine.master_port}]
    return (
        [*ports, {"name": "data-ranks", "containerPort": engine.data_rpc_port}] if engine.data_parallel > 1 else ports
    )
