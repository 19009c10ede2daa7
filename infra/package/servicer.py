"""The gRPC service of the package's plugin: components as Pulumi serves them, and a release's resources.

Pulumi's component provider has no resources of its own. Those here are carried out by the dynamic resources'
providers, called as `pulumi/dynamic/__main__.py` (pulumi 3.272) calls them; they take minutes, so each runs in
a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.dynamic import ResourceProvider
from pulumi.provider.server import ProviderServicer
from pulumi.runtime import proto, rpc

from components.release.progress import engine_log
from infra.package.hosted import PROVIDERS


class Servicer(ProviderServicer):
    """Requests about resources name their URN, and so their type."""

    async def CheckConfig(self, request: Any, context: Any) -> Any:
        return proto.CheckResponse(inputs=request.news)

    async def DiffConfig(self, request: Any, context: Any) -> Any:
        return proto.DiffResponse(changes=proto.DiffResponse.DIFF_NONE)

    async def Check(self, request: Any, context: Any) -> Any:
        olds, news = _properties(request.olds, True), _properties(request.news, True)
        found = await _carried_out(context, lambda: _provider(request.urn).check(olds, news))
        failures = [proto.CheckFailure(property=f.property, reason=f.reason) for f in found.failures]
        return proto.CheckResponse(inputs=request.news, failures=failures)

    async def Diff(self, request: Any, context: Any) -> Any:
        olds, news = _properties(request.olds, True), _properties(request.news, True)
        found = await _carried_out(context, lambda: _provider(request.urn).diff(request.id, olds, news))
        changes = proto.DiffResponse.DIFF_SOME if found.changes else proto.DiffResponse.DIFF_NONE
        return proto.DiffResponse(changes=changes, replaces=found.replaces or [])

    async def Create(self, request: Any, context: Any) -> Any:
        inputs = _properties(request.properties)
        made = await _carried_out(context, lambda: _provider(request.urn).create(inputs))
        return proto.CreateResponse(id=made.id, properties=await _sent(made.outs))

    async def Update(self, request: Any, context: Any) -> Any:
        olds, news = _properties(request.olds), _properties(request.news)
        made = await _carried_out(context, lambda: _provider(request.urn).update(request.id, olds, news))
        return proto.UpdateResponse(properties=await _sent(made.outs))

    async def Delete(self, request: Any, context: Any) -> Any:
        outputs = _properties(request.properties)
        await _carried_out(context, lambda: _provider(request.urn).delete(request.id, outputs))
        return empty_pb2.Empty()

    async def Read(self, request: Any, context: Any) -> Any:
        """What they found is not there to be read again: as it is in the state."""
        return proto.ReadResponse(id=request.id, properties=request.properties, inputs=request.inputs)


def _provider(urn: str) -> ResourceProvider:
    """By the resource's own type, the last of its URN's."""
    return PROVIDERS[urn.split("::")[2].rpartition("$")[2]]


async def _carried_out(context: Any, do: Callable[[], Any]) -> Any:
    try:
        return await asyncio.to_thread(do)
    except Exception as error:  # the edge: the engine shows one line, and the whole where it is asked to
        engine_log(f"{type(error).__name__}: {error}", debug=True)
        return await context.abort(grpc.StatusCode.UNKNOWN, f"{type(error).__name__}: {error}")


def _properties(sent: Any, unknowns: bool = False) -> dict[str, Any]:
    """Plain values: no resource here keeps a secret."""
    return {name: rpc.unwrap_rpc_secret(value) for name, value in rpc.deserialize_properties(sent, unknowns).items()}


async def _sent(outputs: dict[str, Any] | None) -> Any:
    return await rpc.serialize_properties(outputs or {}, {})
