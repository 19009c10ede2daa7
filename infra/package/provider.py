"""The package's plugin: Pulumi's own component provider, and the release's resources beside it."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import grpc
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS
from pulumi.runtime.proto import provider_pb2_grpc

from infra.naming import PROJECT
from infra.package.schema import completed
from infra.package.servicer import Servicer
from infra.package.serving import Serving
from infra.package.version import VERSION


class Package(ComponentProvider):
    """The schema is inferred from the component's types; what can't be is added."""

    def __init__(self) -> None:
        super().__init__([Serving], PROJECT, version=VERSION)
        self.schema = json.dumps(completed(json.loads(self.schema or "{}"), PROJECT, Serving.__name__))

    def map_inputs(self, inputs: Any, component_def: Any) -> Any:
        """As they came: the settings' own reader tells all faults at once, and knows the schema's names."""
        return inputs


def main() -> None:
    """Serve the engine, whose address is the last argument, until it interrupts."""

    async def serve() -> None:
        server = grpc.aio.server(options=_GRPC_CHANNEL_OPTIONS)
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(
            Servicer(Package(), sys.argv[1:], sys.argv[-1]), server
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        print(port, flush=True)
        await server.wait_for_termination()

    try:
        asyncio.run(serve())
    except KeyboardInterrupt:
        return
