"""As the package itself: vLLM loads these by name, too."""

from llguidance import __getattr__  # noqa: F401
