"""Files that come with a release: the gateway's program, a chat template.

They lie in one ConfigMap a release, named after it. Pods are rendered before the release has an id, so
they name the ConfigMap `FILES`; declaring the release puts its own name in place.
"""

from __future__ import annotations

import base64
from typing import Any

FILES = "release-files"
MOUNT = "/opt/splitserve"
FILES_MOUNT: dict[str, Any] = {"name": FILES, "mountPath": MOUNT, "readOnly": True}
FILES_VOLUME: dict[str, Any] = {"name": FILES, "configMap": {"name": FILES}}


def files_name(release_id: str) -> str:
    return f"files-{release_id}"


def encoded(files: dict[str, bytes]) -> dict[str, str]:
    """A ConfigMap's `binaryData`."""
    return {name: base64.b64encode(content).decode() for name, content in sorted(files.items())}


def volumes(container: dict[str, Any]) -> list[dict[str, Any]]:
    """The volume that a container's mounts ask for."""
    return [FILES_VOLUME] if FILES_MOUNT in container["volumeMounts"] else []


def of_release(pod: dict[str, Any], release_id: str) -> dict[str, Any]:
    """A rendered pod with the release's own ConfigMap in place of the name that stands for it."""
    named = {"name": FILES, "configMap": {"name": files_name(release_id)}}
    return {**pod, "volumes": [named if volume == FILES_VOLUME else volume for volume in pod["volumes"]]}
