"""Ask this machine's own nvidia-smi, where the engines run on this machine."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterable
from urllib.parse import urlsplit

from components.topology.evidence import ASK_LINKS, ASK_PEERS

LIMIT_S = 20


def is_here(url: str) -> bool:
    """Whether a URL's host is an address of this machine: only its own can be bound."""
    try:
        found = socket.getaddrinfo(urlsplit(url).hostname, 0, type=socket.SOCK_DGRAM)
    except (OSError, ValueError):
        return False
    return bool(found) and all(_can_bind(family, address) for family, _, _, _, address in found)


def ask_here(urls: Iterable[str]) -> dict[str, str]:
    """What nvidia-smi prints of this machine's GPUs, by command, if all engines run here and it is here; what fails is
    left out."""
    tool = shutil.which("nvidia-smi")
    if tool is None or not all(map(is_here, urls)):
        return {}
    return {command: text for command in (ASK_LINKS, ASK_PEERS) if (text := _printed([tool, *command.split()[1:]]))}


def _can_bind(family: int, address: tuple) -> bool:
    with socket.socket(family, socket.SOCK_DGRAM) as asked:
        try:
            asked.bind(address)
        except OSError:
            return False
    return True


def _printed(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""
