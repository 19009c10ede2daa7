"""The gateway: one HTTP server that chains render, prefill, decode and derender for OpenAI clients.

Everything but `packed.py` runs in the cluster, on the vLLM image's own Python and packages, from one
zip: so these files import each other relatively and nothing else of ours.
"""
