"""Have a prompt's images, videos and sounds encoded by the encoder tier, before an engine gets the prompt.

One call per item, all at once. An item is asked for as a prompt of its own placeholders: an instance that only
encodes ends a request when its prompt is consumed, without a token (vllm 0.32 `v1/core/sched/scheduler.py`,
`is_mm_encoder_only`), and names in `ec_transfer_params` what the engine may then load, by the item's hash.

The pixels stay in the engine's request: an engine that finds no embedding encodes the item itself. Without them
such an engine ends with an assertion (vllm 0.32 `v1/worker/utils.py` sanity_check_mm_encoder_outputs, with
ECExampleConnector).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .answer import all_of
from .chain import GENERATE
from .embeddings import Embeddings, Item
from .faults import Fault
from .samples import Sample
from .upstream import Call, Upstream

PARTS = ("kwargs_data", "mm_metadata")
Taken = dict[str, Item]


class Encode:
    def __init__(self, upstream: Upstream) -> None:
        self.settings = upstream.settings
        self._upstream = upstream
        self._telemetry = upstream.telemetry
        self._embeddings = Embeddings(self.settings.embedding_reuse_s)

    async def all(self, samples: list[Sample]) -> None:
        """Encode each item of the samples once, and write into their requests where it is. Raises: Fault."""
        with_items = [sample for sample in samples if sample.request.get("features")]
        if not with_items:
            return
        taken: Taken = {}
        try:
            for sample in with_items:
                self._rename(sample.request, taken)
            await self._encode(with_items, {item.name: item for item in taken.values()})
        finally:
            for item in taken.values():
                self._embeddings.leave(item)

    def _rename(self, request: dict[str, Any], taken: Taken) -> None:
        """Give the request's items the names of ours: hexadecimal words, since one connector makes paths of them."""
        salt = request.get("cache_salt") or ""
        features = request["features"]
        for given in (given for hashes in features["mm_hashes"].values() for given in hashes):
            if given not in taken:
                taken[given] = self._embeddings.take(salt, given)
        renamed = {kind: [taken[given].name for given in hashes] for kind, hashes in features["mm_hashes"].items()}
        request["features"] = features | {"mm_hashes": renamed}

    async def _encode(self, samples: list[Sample], items: Taken) -> None:
        asked = {name: (body, sample) for sample in samples for name, body in items_of(sample.request)}
        with self._telemetry.timed("encode"):
            found = await all_of([self._encoded(items[name], *one) for name, one in asked.items()])
        params = dict(zip(asked, found, strict=True))
        for sample in samples:
            sample.request["ec_transfer_params"] = {name: params[name] for name, _ in items_of(sample.request)}

    async def _encoded(self, item: Item, body: dict[str, Any], sample: Sample) -> Any:
        if item.task is not None:
            self._telemetry.reused.inc()
        return await self._embeddings.encoded(item, lambda: self._ask(item.name, body, sample.headers))

    async def _ask(self, name: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
        """An item's entry of `ec_transfer_params`. Another pod is asked only where the first took nothing."""
        call = Call("encoder", GENERATE, body, headers, self.settings.encode_limit_s)
        _, answer = await self._upstream.ask(call)
        found = (answer.get("ec_transfer_params") or {}).get(name)
        if found is None:
            self._telemetry.without_embedding.inc()
            message = "the encoder tier named no embedding; is its connector configured?"
            raise Fault(502, message, reason="encoder_without_embedding")
        self._telemetry.encoded.inc()
        return found


def without_names(body: dict[str, Any]) -> None:
    """Remove the clients' own names (`uuid`) of images in place: they stand in for an item's content, and two
    clients may say the same (vllm 0.32 `multimodal/processing/inputs.py`)."""
    for message in body.get("messages") or []:
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else []:
            if isinstance(part, dict):
                part.pop("uuid", None)


def items_of(request: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(hash, the encoder's request) of each item."""
    features = request["features"]
    for modality, hashes in features["mm_hashes"].items():
        for index, name in enumerate(hashes):
            place = features["mm_placeholders"][modality][index]
            begin, length = place["offset"], place["length"]
            own = {part: {modality: [features[part][modality][index]]} for part in PARTS
                   if (features.get(part) or {}).get(modality)}  # fmt: skip
            yield (
                name,
                {
                    "request_id": f"{request['request_id']}-{modality}-{index}",
                    "model": request.get("model"),
                    "token_ids": request["token_ids"][begin : begin + length],
                    "features": {
                        "mm_hashes": {modality: [name]},
                        "mm_placeholders": {modality: [place | {"offset": 0}]},
                        **own,
                    },
                    "sampling_params": {"max_tokens": 1, "temperature": 0.0},
                },
            )
