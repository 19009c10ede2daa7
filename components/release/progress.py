"""A dynamic resource's tie to the engine that runs it: say something, and end when it is gone.

A resource plugin's own output is hidden by the engine; the engine's log service is not. Pulumi hands
its address to every plugin as the last argument (docs/explanation/engine.md). A plugin outlives an
engine that was killed; a gate that goes on then would act on a release beside the next update.
"""

from __future__ import annotations

import functools
import os
import socket
import sys
import threading
import time
from collections.abc import Callable

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

ENGINE_POLL_S = 1.0
REFUSALS = 3
"""Refused connections in a row after which the engine is taken for gone."""
GONE_EXIT_CODE = 75


@functools.cache
def engine_address() -> tuple[str, int] | None:
    """Where the engine listens; None outside a plugin."""
    host, _, port = sys.argv[-1].rpartition(":")
    return (host, int(port)) if host and port.isdigit() else None


@functools.cache
def _engine() -> engine_pb2_grpc.EngineStub | None:
    address = engine_address()
    return engine_pb2_grpc.EngineStub(grpc.insecure_channel("{}:{}".format(*address))) if address else None


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


@functools.cache
def end_with_engine() -> None:
    """From now on this process ends as soon as its engine is gone, whatever it is doing."""
    address = engine_address()
    if address:
        threading.Thread(target=watch, args=(address, lambda: os._exit(GONE_EXIT_CODE)), daemon=True).start()


def watch(address: tuple[str, int], gone: Callable[[], object]) -> None:
    """Call `gone` once nothing listens at the address any more."""
    refused = 0
    while refused < REFUSALS:
        time.sleep(ENGINE_POLL_S)
        try:
            socket.create_connection(address, timeout=ENGINE_POLL_S).close()
            refused = 0
        except ConnectionRefusedError:
            refused += 1
        except OSError:
            continue  # busy, not gone
    gone()
