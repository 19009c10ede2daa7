"""The stand-in for Pulumi's AWS provider: a `pulumi-resource-aws` on boto3. The engine starts it.

Protocol: the engine's address is in the arguments, the first line on stdout is the port
(pulumi/pulumi sdk/go/common/resource/plugin/plugin.go).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent import futures
from importlib.metadata import version

import grpc
from pulumi.runtime.proto import provider_pb2_grpc

from tools.awsim.servicer import Servicer

WORKERS = 64
"""The engine creates as many resources at once as depend on none that is missing."""
PARENT_POLL_S = 1.0
MAX_MESSAGE_BYTES = 400 * 1024 * 1024
OPTIONS = [("grpc.max_receive_message_length", MAX_MESSAGE_BYTES)]


def main() -> None:
    """Serve until the engine ends the process, or is gone itself."""
    engine = os.getppid()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=WORKERS), options=OPTIONS)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Servicer(version("pulumi-aws")), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    while not ended.wait(PARENT_POLL_S) and os.getppid() == engine:
        pass
    server.stop(grace=1)
    sys.exit(0)


if __name__ == "__main__":
    main()
