"""A folder that all pods share: ECExampleConnector, one safetensors file an item.

It never deletes a file, so the encoder's pods clear old ones away (components/serving/encoder_sweep.py). Each
release has a folder of its own in it: embeddings of other weights must not meet.
"""

from __future__ import annotations

from typing import Any

from components.serving.encoder_connectors.profile import EncoderConnectorProfile
from components.serving.labels import RELEASE_LABEL
from components.serving.spec import EncoderSpec

MOUNT = "/var/lib/splitserve/embeddings"
OWN = f"{MOUNT}/splitserve-embeddings"
"""What is swept: the folder of the stack file may hold other things."""
RELEASE = "RELEASE"


def _options(_: EncoderSpec) -> dict[str, Any]:
    # The kubelet fills in the variable; the connector makes the folders.
    return {"shared_storage_path": f"{OWN}/$({RELEASE})"}


_VARIABLES = {RELEASE: f"field:metadata.labels['{RELEASE_LABEL}']"}

FOLDER = EncoderConnectorProfile(
    name="folder",
    vllm_class="ECExampleConnector",
    sources=("example_connector.py",),
    options=_options,
    environment={"producer": _VARIABLES, "consumer": _VARIABLES},
    in_folder=True,
    on_cpu=True,
    limits=(
        "upstream calls it a debug implementation: it reads and writes within the engine's step",
        "an item whose file goes between the look and the load ends the engine (example_connector.py "
        "start_load_caches)",
    ),
)
