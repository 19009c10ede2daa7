"""Say something in the run's output while a dynamic resource works.

A resource plugin's own output is hidden by the engine; the engine's log service is not. Pulumi hands
its address to every plugin as the last argument (docs/explanation/engine.md).
"""

from __future__ import annotations

import functools
import sys

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc


@functools.cache
def _engine() -> engine_pb2_grpc.EngineStub | None:
    address = sys.argv[-1]
    return engine_pb2_grpc.EngineStub(grpc.insecure_channel(address)) if ":" in address else None


def engine_log(message: str, *, warn: bool = False, debug: bool = False) -> None:
    """Show a message beside the stack; silently nothing when no engine listens."""
    severity = engine_pb2.WARNING if warn else engine_pb2.DEBUG if debug else engine_pb2.INFO
    engine = _engine()
    if engine is None:
        return
    try:
        engine.Log(engine_pb2.LogRequest(severity=severity, message=message), timeout=5)
    except grpc.RpcError:
        _engine.cache_clear()
