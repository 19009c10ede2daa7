"""The Pulumi engine from pinned Go modules: CLI, Kubernetes provider, and the Python language host.

Built only where the user has no `pulumi` of their own. The language host is ours (language_host.py);
its executor and the dynamic-provider launcher come from the SDK's module.
"""

from __future__ import annotations

import filecmp
import json
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

from infra.versions import PULUMI
from tools import gobuild
from tools.gobuild import GoTool, build_step, go_environment
from tools.steps import Log, Step

HERE = Path(__file__).resolve().parent
SDK_MODULE = "github.com/pulumi/pulumi/sdk/v3"
CLI = GoTool(
    "pulumi",
    HERE / "pulumi",
    "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
    f"-X {SDK_MODULE}/go/common/version.Version=v{PULUMI}",
    "osusergo,grpcnotrace",  # without the latter the binary keeps much dead code (pulumi#22012)
)
PROVIDER = GoTool(
    "pulumi-resource-kubernetes",
    HERE / "kubernetes",
    ".",
    f"-X main.version={version('pulumi-kubernetes')}",
)
SCRIPTS = ("python/cmd/pulumi-language-python-exec", "python/dist/pulumi-resource-pulumi-python")
GENERATOR = GoTool("sdk-generator", HERE / "codegen", ".")
OTHER_LANGUAGES = ("nodejs", "go")
"""Whose SDKs can be written, beside Python's."""
HOST = """#!/bin/sh
export SPLITSERVE_HOST_LANGUAGE={language}
exec "${{PULUMI_PYTHON_CMD:-python3}}" "$(dirname "$(readlink -f "$0")")/language_host.py" "$@"
"""


def recipe() -> str:
    return gobuild.recipe([CLI, PROVIDER])


def modules() -> list[Path]:
    return [CLI.module, PROVIDER.module]


def binaries(bin_folder: Path) -> list[Path]:
    return [bin_folder / CLI.name, provider_path(bin_folder)]


def provider_path(bin_folder: Path) -> Path:
    return bin_folder / PROVIDER.name


def cli_steps(bin_folder: Path, go_cache: Path) -> list[Step]:
    """The CLI and the Python host beside it."""
    return [
        build_step(CLI, bin_folder, go_cache),
        Step(
            "install the Python language host",
            lambda: _same_host(bin_folder, "python"),
            lambda log: _install_host(bin_folder, go_cache, log),
            "see the log",
        ),
    ]


def generator_steps(bin_folder: Path, go_cache: Path) -> list[Step]:
    """What writes SDKs, and the hosts by which `pulumi package` asks for other languages' than Python."""
    return [
        build_step(GENERATOR, bin_folder, go_cache),
        Step(
            "install the SDK hosts",
            lambda: all(_same_host(bin_folder, language) for language in OTHER_LANGUAGES),
            lambda _: _write_hosts(bin_folder),
            "see the log",
        ),
    ]


def provider_steps(bin_folder: Path, go_cache: Path) -> list[Step]:
    return [build_step(PROVIDER, bin_folder, go_cache)]


def install_provider(bin_folder: Path, pulumi_home: Path) -> None:
    """Put the provider where the engine looks for it without a warning: among its plugins."""
    name = f"resource-kubernetes-v{version('pulumi-kubernetes')}"
    target = pulumi_home / "plugins" / name / PROVIDER.name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(provider_path(bin_folder))


def _install_host(bin_folder: Path, go_cache: Path, log: Log) -> None:
    """Another host needs no module: Go's caches are gone by the time that it changes."""
    if missing := [script for script in SCRIPTS if not (bin_folder / Path(script).name).exists()]:
        _install_scripts(missing, bin_folder, go_cache, log)
    _write_host(bin_folder, "python")


def _install_scripts(scripts: list[str], bin_folder: Path, go_cache: Path, log: Log) -> None:
    listed = subprocess.run(
        ["go", "list", "-m", "-json", SDK_MODULE],
        cwd=CLI.module, env=go_environment(go_cache), capture_output=True, text=True, check=True,
    )  # fmt: skip
    sdk = Path(json.loads(listed.stdout)["Dir"])
    for script in scripts:
        target = bin_folder / Path(script).name
        shutil.copyfile(sdk / script, target)
        target.chmod(0o755)
    log.path.parent.mkdir(parents=True, exist_ok=True)
    log.path.write_text(f"from {sdk}\n")


def _write_hosts(bin_folder: Path) -> None:
    for language in OTHER_LANGUAGES:
        _write_host(bin_folder, language)


def _write_host(bin_folder: Path, language: str) -> None:
    shutil.copyfile(HERE / "language_host.py", bin_folder / "language_host.py")
    host = bin_folder / f"pulumi-language-{language}"
    host.write_text(HOST.format(language=language))
    host.chmod(0o755)


def _same_host(bin_folder: Path, language: str) -> bool:
    host = bin_folder / f"pulumi-language-{language}"
    return host.exists() and filecmp.cmp(HERE / "language_host.py", bin_folder / "language_host.py", False)
