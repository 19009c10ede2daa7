"""The KV-cache geometry that vLLM itself states for a model: the reference of our own `config.json` reader.

Runs in vLLM's environment (vllm 0.32), not in ours, and needs no weights, tokenizer, GPU or network:

    PYTHONPATH=<vLLM's site folder> python3.11 tests/engine/vllm_geometry.py --tp 8 FOLDER...

For each folder it constructs vLLM's own model class on torch's meta device and asks every attention
and state-space layer for its cache, as vLLM's worker does before it allocates memory
(vllm 0.32 `v1/worker/gpu/attn_utils.py`, `get_kv_cache_spec`). One JSON object per line is printed,
for one rank of `--tp`: all its numbers are bytes on one GPU.

Three things differ from a real start, none of which changes what a layer caches:

- The platform is vLLM's CPU platform without its adjustments (`platforms/cpu.py`,
  `check_and_update_config`, changes block sizes and the type of the state by the CPU's features). Where
  the CPU has no kernel, the class is constructed nevertheless: sparse MLA with the dense kernel's class,
  and experts of any shape with none.
- The other ranks of a tensor-parallel group are not there: only their number is.
- `quantization_config` is left out, since some quantization methods need a GPU to be constructed. It
  concerns weights; the type of the cache is `--kv-cache-dtype`.

With sparse MLA and an fp8 cache, a GPU's kernel may keep a layout of its own (`fp8_ds_mla`, 656 bytes per
token and layer): ask for that one by its name.

Pages are not padded here. For a model with state-space layers vLLM pads at start-up so that every
group's page has one size (`platforms/interface.py`, `update_block_size_for_backend`): that is a matter
of the allocation, and a request's state has `state_bytes` without it. With prefix caching, vLLM keeps two
such states per running request (`v1/kv_cache_interface.py`, `MambaSpec.max_memory_usage_bytes`).
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import json
import os
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

# vLLM reads these when it is imported. Its log goes to stdout, which is for the result.
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

import torch
from vllm.config import (
    CacheConfig,
    CompilationConfig,
    DeviceConfig,
    LoadConfig,
    ModelConfig,
    ParallelConfig,
    VllmConfig,
    set_current_vllm_config,
)
from vllm.distributed import parallel_state
from vllm.model_executor.layers.fused_moe import unquantized_fused_moe_method
from vllm.model_executor.layers.fused_moe.config import FusedMoEConfig
from vllm.model_executor.layers.fused_moe.oracle.unquantized import UnquantizedMoeBackend
from vllm.model_executor.model_loader.utils import initialize_model
from vllm.platforms import current_platform
from vllm.utils.torch_utils import set_default_torch_dtype
from vllm.v1.attention.backend import MultipleOf
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend
from vllm.v1.attention.backends.registry import AttentionBackendEnum
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheSpec, MambaSpec
from vllm.v1.worker.gpu.attn_utils import get_kv_cache_spec

GROUPS = ("_WORLD", "_TP", "_PP", "_DP", "_EP", "_EPLB", "_PCP", "_DCP")
"""The process groups that model classes ask for (vllm 0.32 `distributed/parallel_state.py`)."""


def unadjusted() -> None:
    """Let the CPU platform construct any attention, and change no setting."""

    def backend(cls: type, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None) -> str:
        return (
            AttentionBackendEnum.CPU_MLA if attn_selector_config.use_mla else AttentionBackendEnum.CPU_ATTN
        ).get_path()

    def leave(cls: type, vllm_config: VllmConfig) -> None:
        """Block sizes and the state's type stay as they are on a GPU."""

    def blocks(kv_cache_spec: Any = None) -> list[int | MultipleOf]:
        """FlashAttention's (`v1/attention/backends/flash_attn.py`); the CPU's are multiples of 32."""
        return [MultipleOf(16)]

    attention: Any = CPUAttentionBackend
    attention.get_supported_kernel_block_sizes = staticmethod(blocks)
    # Experts hold no cache, so it is of no matter that the CPU has no kernel for some shapes of them.
    checked = FusedMoEConfig.__post_init__

    def unchecked(self: FusedMoEConfig) -> None:
        with contextlib.suppress(NotImplementedError):  # the check is the method's last statement
            checked(self)

    experts: Any = FusedMoEConfig
    experts.__post_init__ = unchecked
    kernels: Any = unquantized_fused_moe_method
    kernels.select_unquantized_moe_backend = lambda moe_config: (UnquantizedMoeBackend.OOT, None)
    platform: Any = type(current_platform)
    platform.get_attn_backend_cls = classmethod(backend)
    platform.check_and_update_config = classmethod(leave)


class Counted:
    """What a layer of experts asks of a process group."""

    def __init__(self, size: int) -> None:
        self._size = size

    def size(self) -> int:
        return self._size

    def rank(self) -> int:
        return 0


class Alone(parallel_state.GroupCoordinator):
    """Rank 0 of a process group whose other ranks do not run."""

    def __init__(self, name: str, size: int) -> None:
        self.unique_name = name
        self.rank = self.local_rank = self.rank_in_group = self.device_index = 0
        self.ranks = list(range(size))
        self.world_size = size
        self.device = torch.device("cpu")
        self.device_group = self.cpu_group = Counted(size)  # type: ignore[assignment]
        self.use_device_communicator = False
        self.device_communicator = None
        self.mq_broadcaster = None

    def __del__(self) -> None:
        """There is nothing to close."""


@contextlib.contextmanager
def without_quantization(folder: Path) -> Iterator[Path]:
    """A copy of the model's `config.json` that says nothing of quantized weights."""
    config = json.loads((folder / "config.json").read_text())
    config.pop("quantization_config", None)
    with tempfile.TemporaryDirectory() as copy:
        target = Path(copy) / folder.name
        target.mkdir()
        (target / "config.json").write_text(json.dumps(config))
        yield target


def specs(folder: Path, tp: int, kv_cache_dtype: str, block_size: int, dtype: str) -> dict[str, KVCacheSpec]:
    """Every cache that the model's layers state, by the layer's name."""
    for group in GROUPS:
        if hasattr(parallel_state, group):
            setattr(parallel_state, group, Alone(group, tp if group in ("_WORLD", "_TP", "_EP") else 1))
    with without_quantization(folder) as path:
        model = ModelConfig(
            model=str(path),
            tokenizer=str(path),
            skip_tokenizer_init=True,
            dtype=dtype,
            enforce_eager=True,
            # A model of text and images holds the KV cache in its text layers only.
            language_model_only=True,
        )
        # A window of all layers is stated here; one of some layers, by the model class (`engine/arg_utils.py`).
        kinds = set(getattr(model.hf_text_config, "layer_types", None) or ["sliding_attention"])
        window = model.get_sliding_window() if kinds == {"sliding_attention"} else None
        config = VllmConfig(
            model_config=model,
            cache_config=CacheConfig(
                block_size=block_size,
                cache_dtype=kv_cache_dtype,
                sliding_window=window,
                # With it, vLLM cuts a state-space layer's state at every block.
                enable_prefix_caching=False,
            ),
            parallel_config=ParallelConfig(tensor_parallel_size=tp, distributed_executor_backend="mp"),
            device_config=DeviceConfig(device="cpu"),
            load_config=LoadConfig(load_format="dummy"),
            compilation_config=CompilationConfig(mode=0),
        )
        with set_current_vllm_config(config), set_default_torch_dtype(model.dtype), torch.device("meta"):
            initialize_model(config)
        return get_kv_cache_spec(config)


def row(name: str, tp: int, found: Iterable[KVCacheSpec]) -> dict[str, Any]:
    """Sum up the layers' caches. A window's layers hold a fixed number of tokens, so they are listed apart."""
    found = list(found)
    counted = Counter(
        (type(spec).__name__, spec.page_size_bytes, spec.block_size, getattr(spec, "sliding_window", None))
        for spec in found
    )
    per_token = [
        spec.page_size_bytes / spec.block_size
        for spec in found
        # MLAAttentionSpec, and with it the sparse indexer's cache, is a FullAttentionSpec.
        if isinstance(spec, FullAttentionSpec) and spec.sliding_window is None
    ]
    total = sum(per_token)
    return {
        "model": name,
        "tp": tp,
        "layers": len(found),
        "groups": [
            {"kind": kind, "layers": layers, "page_size_bytes": page, "block_size": block, "sliding_window": window}
            for (kind, page, block, window), layers in counted.items()
        ],
        "kv_bytes_per_token_full": int(total) if total == int(total) else total,
        "state_bytes": sum(spec.real_page_size_bytes for spec in found if isinstance(spec, MambaSpec)),
        "error": None,
    }


def said(error: Exception) -> str:
    """One line of an error; of an assertion without a text, the statement."""
    text = " ".join(str(error).split()).split(" [type=")[0]
    return f"{type(error).__name__}: {text or traceback.extract_tb(error.__traceback__)[-1].line}"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folders", nargs="+", type=Path, help="folders that hold a config.json")
    arguments.add_argument("--tp", type=int, action="append", help="tensor-parallel size (1); may be given again")
    arguments.add_argument("--kv-cache-dtype", default="auto", help="vLLM's --kv-cache-dtype (auto: the model's type)")
    arguments.add_argument("--block-size", type=int, default=16, help="tokens per block (16)")
    arguments.add_argument("--dtype", default="bfloat16", help="vLLM's --dtype (bfloat16)")
    given = arguments.parse_args()
    unadjusted()
    sizes: list[int] = given.tp or [1]
    folders: list[Path] = given.folders
    failed = False
    for tp, folder in itertools.product(sizes, folders):
        if not (folder / "config.json").is_file():
            continue
        try:
            found = specs(folder, tp, given.kv_cache_dtype, given.block_size, given.dtype)
            line = row(folder.name, tp, found.values())
        except Exception as error:  # one model's failure is a row, not the end
            failed = True
            traceback.print_exc()
            line = row(folder.name, tp, []) | {"error": said(error)}
        print(json.dumps(line), flush=True)
        gc.collect()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
