"""How the GPUs of two tiers are joined, and what moved the bytes between them: from what tools and engines print. Pure,
but for `local.py`."""
