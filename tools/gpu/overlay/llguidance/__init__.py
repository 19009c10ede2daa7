"""Stands in for llguidance, which is not carried: vLLM loads it by name, and needs it for guided answers alone."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    class Missing:
        def __init__(self, *_, **__):
            raise RuntimeError(f"llguidance.{name}: guided answers need the real llguidance, which was not carried")

    return Missing
