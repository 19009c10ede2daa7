"""Start and stop: flags, both ports, discovery, and the drain after SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import sys
import time
from pathlib import Path

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from .chain import Chain
from .connections import Connections
from .discovery import Discovery
from .keys import Keys
from .pods import Pods
from .server import Server
from .settings import Settings, parse
from .telemetry import Telemetry
from .upstream import Upstream, session_of

KEEP_ALIVE_S = 75.0
"""Longer than a load balancer's 60 s: it closes idle connections, so no request meets a closing one."""
LINGER_S = 2.0
"""How long the rest of a refused body is read for, so that the client sees the answer instead of a reset."""
CUT_OFF_S = 0.5
"""After the drain's limit: what still runs is cancelled, which closes its connections to the engines."""
BACKLOG = 512
log = logging.getLogger("gateway")


def main(arguments: list[str] | None = None) -> None:
    settings = parse(sys.argv[1:] if arguments is None else arguments)
    # A soft limit of 1024 is common, and each request holds a socket to its client and two to the tiers.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        import uvloop
    except ImportError:
        asyncio.run(_until_signalled(settings))
    else:
        uvloop.run(_until_signalled(settings))


async def _until_signalled(settings: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await serve(settings, stop)


async def serve(settings: Settings, stop: asyncio.Event, ready: asyncio.Event | None = None) -> None:
    """Serve until `stop` is set, then drain. `ready` is set once both ports listen."""
    telemetry = Telemetry(settings.tiers)
    pods = Pods(settings.tiers, unhealthy_s=settings.unhealthy_s, policy=settings.prefill_policy)
    keys = Keys(settings.api_key_file)
    secret = settings.upstream_api_key_file
    key = Path(secret).read_text().strip() if secret else None
    connections = Connections(settings.connection_limit, settings.header_limit_s)
    async with session_of(settings) as session, contextlib.AsyncExitStack() as stack:
        server = Server(Chain(Upstream(session, settings, pods, telemetry, key)), keys, telemetry, connections)
        await _find_pods(settings, pods, stack)
        await _metrics_on(settings, telemetry, server, connections, stack)
        listener = await _listen(settings, server, connections, stack)
        log.info("serving %s on port %d", settings.topology, settings.port)
        if ready is not None:
            ready.set()
        await stop.wait()
        await _drain(settings, server, listener)


async def _find_pods(settings: Settings, pods: Pods, stack: contextlib.AsyncExitStack) -> None:
    if settings.static:
        for tier, urls in settings.static.items():
            pods.put(tier, {url: url.rstrip("/") for url in urls})
        return
    watching = asyncio.create_task(Discovery(settings, pods).run())
    stack.callback(watching.cancel)


async def _listen(
    settings: Settings, server: Server, connections: Connections, stack: contextlib.AsyncExitStack
) -> asyncio.Server:
    runner = web.AppRunner(
        server.app(),
        shutdown_timeout=CUT_OFF_S,
        handler_cancellation=True,
        access_log=None,
        keepalive_timeout=KEEP_ALIVE_S,
        lingering_time=LINGER_S,
    )
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    assert runner.server is not None
    connections.attach(runner.server)
    loop = asyncio.get_running_loop()
    return await loop.create_server(connections, settings.host, settings.port, backlog=BACKLOG)


async def _metrics_on(
    settings: Settings,
    telemetry: Telemetry,
    server: Server,
    connections: Connections,
    stack: contextlib.AsyncExitStack,
) -> None:
    async def scrape(_: web.Request) -> web.Response:
        telemetry.in_flight.set(server.admission.in_flight)
        telemetry.queued.set(server.admission.queued)
        telemetry.connections.set(connections.open)
        telemetry.body_bytes.set(server.budget.held_bytes)
        for tier in settings.tiers:
            telemetry.healthy.labels(tier).set(len(server.chain.upstream.pods.healthy(tier)))
        return web.Response(body=generate_latest(telemetry.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/metrics", scrape)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, settings.host, settings.metrics_port).start()


async def _drain(settings: Settings, server: Server, listener: asyncio.Server) -> None:
    """Not ready at once; new requests are still served until that has spread; then what runs may end."""
    server.draining = True
    end = time.monotonic() + settings.drain_s
    log.info("draining: %d requests in flight", server.admission.in_flight)
    await asyncio.sleep(min(settings.drain_notice_s, settings.drain_s))
    listener.close()
    server.closed = True
    while (server.admission.in_flight or server.admission.queued) and time.monotonic() < end:
        await asyncio.sleep(0.05)
    if server.admission.in_flight:
        log.warning("%d requests in flight were cut off after %g s", server.admission.in_flight, settings.drain_s)
