"""A Pulumi language host for Python programs, on the SDK's own stubs.

Pulumi's host is a Go program that is not served as a module; this one implements the same service
as far as `up`, `preview`, `destroy`, `--policy-pack` and `package` use it. A user who has a `pulumi` of their
own has its host as well, and never runs this one. Of other languages it writes SDKs, and runs Node.js's programs.

Contract: prints its port on the first line; the engine's address is the last argument. Source:
pulumi 3.274 `sdk/proto/pulumi/language.proto`, `sdk/python/cmd/pulumi-language-python/main.go`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

# `pulumi-language-python-exec` ends with these after it has reported the error itself.
REPORTED_ERRORS = (1, 32)
EXECUTOR = "pulumi-language-python-exec"
LANGUAGE = os.environ.get("SPLITSERVE_HOST_LANGUAGE", "python")
"""Set by the launcher: whose SDKs it writes."""
GENERATOR = "sdk-generator"


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """One program at a time, as the engine asks for it."""

    def __init__(self, engine: str, bin_folder: Path) -> None:
        self.engine = engine
        self.executor = bin_folder / EXECUTOR
        self.child: subprocess.Popen[bytes] | None = None

    def Handshake(self, request: Any, context: grpc.ServicerContext) -> Any:
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: grpc.ServicerContext) -> Any:
        return plugin_pb2.PluginInfo(version="")

    def GetRequiredPackages(self, request: Any, context: grpc.ServicerContext) -> Any:
        return language_pb2.GetRequiredPackagesResponse()

    def GetRequiredPlugins(self, request: Any, context: grpc.ServicerContext) -> Any:
        return language_pb2.GetRequiredPluginsResponse()

    def About(self, request: Any, context: grpc.ServicerContext) -> Any:
        version = sys.version.split()[0]
        return language_pb2.AboutResponse(executable=sys.executable, version=version)

    def RuntimeOptionsPrompts(self, request: Any, context: grpc.ServicerContext) -> Any:
        return language_pb2.RuntimeOptionsResponse()

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        if self.child is not None:
            self.child.terminate()
        return empty_pb2.Empty()

    def Run(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Run the program; its output goes where this host's goes."""
        environment = os.environ | {
            "PULUMI_CONFIG": json.dumps(dict(request.config)),
            "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
            "PULUMI_NODEJS_TYPESCRIPT": "true",
        }
        flags = {
            "monitor": request.monitor_address,
            "engine": self.engine,
            "project": request.project,
            "root_directory": request.info.root_directory,
            "stack": request.stack,
            "pwd": request.pwd,
            "dry_run": "true" if request.dryRun else "",
            "parallel": str(request.parallel),
            "organization": request.organization,
        }
        command = self._command({name: value for name, value in flags.items() if value}, request.info.program_directory)
        self.child = subprocess.Popen([*command, *request.args], env=environment, cwd=request.pwd or None)
        code = self.child.wait()
        if code in REPORTED_ERRORS:
            return language_pb2.RunResponse(bail=True)
        return language_pb2.RunResponse(error=f"the program ended with exit code {code}" if code else "")

    def _command(self, flags: dict[str, str], program: str) -> list[str]:
        """The project's Python, or Node.js with the SDK that the program has installed."""
        if LANGUAGE == "nodejs":
            executor = Path(program) / "node_modules/@pulumi/pulumi/cmd/run"
            dashed = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
            return ["node", str(executor), *dashed, program]
        given = [part for name, value in flags.items() for part in (f"--{name}", value)]
        return [sys.executable, "-u", str(self.executor), *given, program]

    def GeneratePackage(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Write an SDK by Pulumi's own generator, which `make test-engine` builds."""
        generator = shutil.which(GENERATOR)
        if generator is None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"no {GENERATOR} on PATH: run `make test-engine` first")
        command = [str(generator), LANGUAGE, request.directory, *(["local"] if request.local else [])]
        done = subprocess.run(command, input=request.schema, text=True, capture_output=True, check=False)
        if done.returncode:
            context.abort(grpc.StatusCode.INTERNAL, f"{GENERATOR}: {done.stderr.strip()}")
        return language_pb2.GeneratePackageResponse()

    def Link(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Changes no project: says how the SDK is found."""
        paths = ", ".join(package.path for package in request.packages)
        return language_pb2.LinkResponse(import_instructions=f"Install {paths} where your program finds it.")

    def InstallDependencies(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """Nothing: whoever runs this host has made the environment."""
        yield from ()

    def RunPlugin(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """Run a policy pack or a plugin from source, and stream what it prints."""
        program = request.info.program_directory
        if request.kind == "analyzer":
            command = [sys.executable, "-u", "-m", "pulumi.policy", *request.args, program]
        else:
            command = [sys.executable, "-u", program, *request.args]
        process = subprocess.Popen(
            command, cwd=request.pwd or program, env=os.environ | dict(e.split("=", 1) for e in request.env),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        context.add_callback(process.terminate)
        threading.Thread(target=_forward, args=(process,), daemon=True).start()
        assert process.stdout is not None
        while chunk := os.read(process.stdout.fileno(), 65536):
            yield language_pb2.RunPluginResponse(stdout=chunk)
        yield language_pb2.RunPluginResponse(exitcode=process.wait())


def _forward(process: subprocess.Popen[bytes]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()


def main() -> None:
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=8), options=[("grpc.max_receive_message_length", 400 << 20)]
    )
    host = LanguageHost(sys.argv[-1], Path(sys.argv[0]).resolve().parent)
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    # The engine ends its plugins with an interrupt; that is no error to report.
    with contextlib.suppress(KeyboardInterrupt):
        server.wait_for_termination()


if __name__ == "__main__":
    main()
