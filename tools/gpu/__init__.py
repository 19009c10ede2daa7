"""Measure on a GPU machine that has no network: pack vLLM here, carry it in parts, unpack it beside that machine's torch."""
