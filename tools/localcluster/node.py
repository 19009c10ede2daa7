"""The node itself: process 1 of its own mount, network, process and host-name namespaces.

Runs twice, on the standard library alone. `enter` (on the host's Python) builds a root from the
Debian root file system and the folders it needs, moves into it, and becomes `serve` (on the node's
own Python), which starts the components, restarts what ends, and reaps orphans. When this process
ends, the kernel ends every process, mount, bridge and iptables chain of the node with it: nothing
is left on the host to clean up.

Usage: node.py enter PLAN   (PLAN: JSON with `root`, `binds`, `hostname`, `components`)
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time

MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
SYS_PIVOT_ROOT = 155  # x86-64
RESTART_DELAY_S = 1.0
libc = ctypes.CDLL(None, use_errno=True)


def mount(source, target, kind="none", flags=0, data=None):
    encode = lambda text: None if text is None else text.encode()  # noqa: E731
    if libc.mount(encode(source), encode(target), encode(kind), flags, encode(data)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {source} on {target}: {os.strerror(number)}")


def bind(source, target, read_only=False):
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        open(target, "a").close()
    mount(source, target, flags=MS_BIND | MS_REC)
    if read_only:
        mount(source, target, flags=MS_REMOUNT | MS_BIND | MS_RDONLY)


def enter(plan_path):
    """Build the node's root and become `serve` in it."""
    with open(plan_path) as file:
        plan = json.load(file)
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    root = plan["root"]
    os.makedirs(root, exist_ok=True)
    mount("tmpfs", root, "tmpfs", data="mode=755")
    for link in ("bin", "sbin", "lib", "lib64"):  # Debian 12 merges these into /usr
        os.symlink(f"usr/{link}", f"{root}/{link}")
    for folder in ("proc", "run", "tmp", "root", "old"):
        os.makedirs(f"{root}/{folder}")
    mount("proc", f"{root}/proc", "proc")
    for folder in ("run", "tmp"):
        mount("tmpfs", f"{root}/{folder}", "tmpfs", data="mode=1777")
    # After these: a checkout may itself lie below /tmp.
    for entry in plan["binds"]:
        bind(entry["source"], root + entry["target"], entry["read_only"])
    # rbind: /dev and /sys bring their sub-mounts (shm, pts, cgroups) along.
    bind("/dev", f"{root}/dev")
    bind("/sys", f"{root}/sys")
    socket.sethostname(plan["hostname"])
    os.chdir(root)
    if libc.syscall(SYS_PIVOT_ROOT, b".", b"old") != 0:
        raise OSError(ctypes.get_errno(), "pivot_root")
    os.chdir("/")
    libc.umount2(b"/old", MNT_DETACH)
    # The root becomes shared, so that mounts made in it reach containers that ask for them.
    os.environ["PATH"] = f"{plan['path']}:/usr/sbin:/usr/bin:/sbin:/bin"
    os.execv("/usr/bin/python3", ["python3", plan["script"], "serve", plan["plan"]])


class Supervisor:
    """Starts the components in order and keeps them running until told to stop."""

    def __init__(self, components, log_folder):
        self.components = components
        self.log_folder = log_folder
        self.running = {}  # pid -> component
        self.stopping = False

    def start(self, component):
        with open(f"{self.log_folder}/{component['name']}.log", "ab") as log:
            process = subprocess.Popen(
                component["argv"], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        self.running[process.pid] = component

    def reap(self):
        """Collect every process that ended; process 1 inherits the orphans of all the others."""
        ended = []
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return ended
            if pid == 0:
                return ended
            if pid in self.running:
                ended.append(self.running.pop(pid))

    def stop(self, *_):
        self.stopping = True

    def run(self):
        signal.signal(signal.SIGTERM, self.stop)
        for component in self.components:
            self.start(component)
        while not self.stopping:
            for component in self.reap():
                time.sleep(RESTART_DELAY_S)
                self.start(component)
            time.sleep(0.2)
        self.end()

    def end(self):
        """Stop in reverse order: etcd, first to start, is last to stop and writes all it knows."""
        for component in reversed(self.components):
            for pid in [p for p, c in self.running.items() if c is component]:
                os.kill(pid, signal.SIGTERM)
                deadline = time.monotonic() + 5
                while pid in self.running and time.monotonic() < deadline:
                    self.reap()
                    time.sleep(0.05)


def serve(plan_path):
    with open(plan_path) as file:
        plan = json.load(file)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    wait_for_link(plan["link"])
    for key, value in plan["sysctls"].items():
        with open("/proc/sys/" + key.replace(".", "/"), "w") as file:
            file.write(value)
    Supervisor(plan["components"], plan["log_folder"]).run()


def wait_for_link(name):
    """Wait until the host has moved its end of the link in and given it an address."""
    while True:
        shown = subprocess.run(["ip", "-4", "-o", "address", "show", "dev", name], capture_output=True, text=True)
        if "inet " in shown.stdout:
            return
        time.sleep(0.05)


if __name__ == "__main__":
    {"enter": enter, "serve": serve}[sys.argv[1]](sys.argv[2])
