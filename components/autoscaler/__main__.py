"""Start the autoscaler: flags, its own port, the loop, and an end on SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import sys

from aiohttp import web

from .cluster import Cluster
from .loop import Autoscaler
from .scrape import Scraper
from .settings import Settings, parse
from .telemetry import Telemetry

STALE_PERIODS = 10


async def serve(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT; the round under way is ended, for at most its calls' own limits."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    shown = {tier: settings.targets[tier] for tier in settings.tiers}
    telemetry = Telemetry(shown, stale_s=STALE_PERIODS * (settings.period_s + settings.call_limit_s))
    app = web.Application()
    app.add_routes(telemetry.routes())
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.host, settings.metrics_port).start()
        reach = (settings.kubernetes_url, settings.namespace, settings.service_account, settings.call_limit_s)
        async with Cluster(*reach) as cluster, Scraper(settings.scrape_limit_s) as scraper:
            telemetry.say(event="start", tiers={t: [b.least, b.most] for t, b in settings.tiers.items()},
                          targets=shown, ratio=[settings.ratio_min, settings.ratio_max])  # fmt: skip
            await Autoscaler(settings, cluster, scraper, telemetry).run(stop)
    finally:
        await runner.cleanup()
    telemetry.say(event="end")


def main() -> None:
    asyncio.run(serve(parse(sys.argv[1:])))


if __name__ == "__main__":
    main()
