"""The AWS stand-in's server: `python -m tools.awsim.server --port P [--kubeconfig K] [--webhook A:P]`.

Prints one line of JSON ({"url", "pid"}) when it listens, and lives until it gets SIGTERM. All state is
in the process. It listens on 127.0.0.1 only; the webhook at the address that is given.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Annotated, Any

# Before moto is imported: it reads its settings then.
os.environ.setdefault("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
os.environ.setdefault("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")

import typer
import yaml
from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from tools.awsim.app import Application
from tools.awsim.node_labels import NodeLabels
from tools.awsim.webhook import review

HOST = "127.0.0.1"
HTTP_VERSION = "HTTP/1.1"


class QuietHandler(MotoRequestHandler):
    """Keeps connections open, as AWS does, and writes no line a request."""

    protocol_version = HTTP_VERSION

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


class QuietWebhookHandler(WSGIRequestHandler):
    protocol_version = HTTP_VERSION

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


def local_cluster(kubeconfig: Path) -> tuple[str, str]:
    """(server, certificate authority) of the kubeconfig's first cluster."""
    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    return cluster["server"], cluster["certificate-authority-data"]


def main(
    port: Annotated[int, typer.Option(help="0: a free one")] = 0,
    kubeconfig: Annotated[Path | None, typer.Option(help="The one-node cluster that plays every EKS cluster")] = None,
    webhook: Annotated[str, typer.Option(help="ADDRESS:PORT of the token webhook")] = "",
    state_file: Annotated[Path | None, typer.Option(help="Where to write the line that is printed")] = None,
) -> None:
    """Serve until SIGTERM."""
    endpoint, authority = local_cluster(kubeconfig) if kubeconfig else (None, None)
    application = Application(endpoint, authority)
    servers = [make_server(HOST, port, application, threaded=True, request_handler=QuietHandler)]
    application.url = f"http://{HOST}:{servers[0].port}"
    if webhook:
        servers.append(_webhook_server(webhook, application))
    nodes = NodeLabels(application.eks, str(kubeconfig)) if kubeconfig else None
    if nodes:
        nodes.start()
    line = json.dumps({"url": application.url, "pid": os.getpid()})
    if state_file:
        state_file.write_text(line + "\n")
    print(line, flush=True)
    _serve(servers)
    if nodes:
        nodes.end()


def _webhook_server(address: str, application: Application) -> BaseWSGIServer:
    host, _, port = address.rpartition(":")

    def answer(environ: dict[str, Any], start: Any) -> list[bytes]:
        content = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)) or b"{}")
        if environ["PATH_INFO"] != "/authenticate":
            start("404 Not Found", [("Content-Length", "0")])
            return [b""]
        body = json.dumps(review(content, application.eks, application.url.removeprefix("http://"))).encode()
        start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    return make_server(host, int(port), answer, threaded=True, request_handler=QuietWebhookHandler)


def _serve(servers: list[BaseWSGIServer]) -> None:
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    ended.wait()
    for server in servers:
        server.shutdown()


if __name__ == "__main__":
    typer.run(main)
