"""Which vLLM image a release runs."""

from __future__ import annotations

from pathlib import Path

from infra.settings import Settings, SettingsError

LOCAL_IMAGE = ".local/image"
"""Where `make up` writes the name of the image that it loaded into the local cluster."""


def resolve_image(settings: Settings, project: Path, where: str) -> str:
    """The configured image, or on the local cluster the one that `make up` made."""
    if settings.image:
        return settings.image
    try:
        return (project / LOCAL_IMAGE).read_text().strip()
    except FileNotFoundError:
        raise SettingsError(
            where, [f"image: found no {LOCAL_IMAGE}; wanted the local cluster's image; run: make up"]
        ) from None
