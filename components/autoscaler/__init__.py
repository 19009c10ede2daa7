"""The autoscaler: sizes the tiers of the live release, each by its own signals, within bounds on their ratio.

Everything but `packed.py` runs in the cluster, on the vLLM image's own Python and packages, from one
file; so it imports nothing of splitserve's but its own modules. Why it exists: docs/explanation/autoscaling.md.
"""
