"""Read the arguments of `splitserve check`, gathering every fault."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from components.check.engine import Target
from components.check.settings import AGE_LIMIT_S
from components.hardware.geometry import DTYPE_BYTES, Geometry, GeometryFault
from components.hardware.model_config import ModelUnknown
from components.hardware.read_geometry import read_geometry

TIERS = ("--prefill", "--decode", "--router")


class Faults(list[str]):
    """What is wrong with the arguments, one line each."""

    def found(self, option: str, found: object, wanted: str) -> None:
        self.append(f"{option}: found {found}, wanted {wanted}")


def targets(option: str, urls: Sequence[str], faults: Faults) -> tuple[Target, ...]:
    """Engines by URL, named by host, port and path."""
    return tuple(Target(url.partition("://")[2], url) for text in urls if (url := base_url(option, text, faults)))


def base_url(option: str, text: str, faults: Faults) -> str | None:
    """A server's URL without `/v1` and what follows; None (and a fault) where it is none."""
    wanted = "such as http://10.0.0.1:8000, the address of one engine without a path of its API"
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        faults.found(option, f"{text} ({error})", wanted)
        return None
    if parts.username or parts.password:
        # Not printed: it holds a password.
        faults.found(option, "a URL with a user or password", "one without; name a key's variable: --api-key-env NAME")
        return None
    if not usable or parts.query or parts.fragment or any(c.isspace() for c in text) or not text.isascii():
        faults.found(option, text or "nothing", wanted)
        return None
    path = parts.path.rstrip("/").removesuffix("/metrics").removesuffix("/v1").rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}"


def distinct(urls: Sequence[tuple[str, str]], faults: Faults) -> None:
    """No URL stands for two engines; `urls` are (option, URL)."""
    for url, count in Counter(url for _, url in urls).items():
        if count > 1:
            options = " and ".join(dict.fromkeys(option for option, other in urls if other == url))
            faults.append(f"{options}: found {url} {count} times, wanted one URL for each engine: what is transferred "
                          "from an engine to itself says nothing")  # fmt: skip


def age_limit_s(text: str, faults: Faults) -> float:
    """Seconds; 0: don't age."""
    if text in ("on", "off"):
        return AGE_LIMIT_S if text == "on" else 0
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        faults.found("--age", text, "on, off or seconds above 0")
    return value


def positive(option: str, value: float, unit: str, faults: Faults) -> None:
    if not (math.isfinite(value) and value > 0):
        faults.found(option, f"{value:g}", f"{unit} above 0")


def api_key(variable: str | None, faults: Faults) -> str:
    """The key that a variable holds; its value is never printed."""
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        faults.found("--api-key-env", f"no variable {variable}, or an empty one", f"a key in it: export {variable}=…")
    elif not (key.isascii() and key.isprintable()):
        faults.found(
            "--api-key-env", f"a key in {variable} that no HTTP header can carry", "printable ASCII in one line"
        )
        return ""
    return key


def geometry(path: Path | None, tensor_parallel: int, dtype: str | None, faults: Faults) -> Geometry | None:
    """The geometry of a Hugging Face config.json; None where there is none."""
    if dtype is not None and dtype not in DTYPE_BYTES:
        faults.found("--dtype", dtype, f"one of {', '.join(DTYPE_BYTES)}")
    if path is None:
        return None
    try:
        content = json.loads(path.read_text())
        if not isinstance(content, dict):
            raise ValueError("it is no JSON object")
        found = read_geometry(content)
        found.transfer(1, 1, "bfloat16", tensor_parallel)
    except OSError as error:
        faults.found("--model-config", f"no readable file {path} ({error.strerror})", "the model's config.json")
    except ModelUnknown as error:
        faults.append(f"--model-config: {path}: {error}; without it bytes are judged by consistency")
    except GeometryFault as error:
        faults.append(f"--tensor-parallel: found {tensor_parallel}, but {error}")
    except ValueError as error:
        faults.found("--model-config", f"{path}, which is no JSON of a model ({error})", "the model's config.json")
    else:
        return found
    return None
