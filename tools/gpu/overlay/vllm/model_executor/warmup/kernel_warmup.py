"""Stands in for vLLM 0.30's kernel warm-up: that one compiles kernels of CUTLASS's DSL on Hopper, whose packages are not
carried. What is not compiled before is compiled by the first requests; the probe's own warm-up sends those."""


def kernel_warmup(worker, *, process_local_only=False):
    # The one that no request reaches: the scheduler names the blocks that it zeroes.
    zeroer = getattr(worker.model_runner, "_kv_block_zeroer", None)
    if not worker.use_v2_model_runner and zeroer is not None:
        zeroer.warmup(worker.model_runner.kv_cache_config.num_blocks)
