"""Stop strings, which the engine finds but can't cut: it answers with tokens, the stop string's among them.

Engines run with a tokenizer and stop by themselves; the text they would have cut exists only after
derender. So the text is cut here, by the engine's rules (vLLM 0.32 `v1/engine/detokenizer.py`): the
stop string and what follows is left out unless `include_stop_str_in_output`, a stream holds back as
many characters as could begin a stop string, and the token that ended the answer (EOS or one of
`stop_token_ids`) has no text.
"""

from __future__ import annotations

from typing import Any


def strings_of(body: dict[str, Any]) -> list[str]:
    stop = body.get("stop")
    return [stop] if isinstance(stop, str) else [text for text in stop or [] if isinstance(text, str)]


def spoken(choice: dict[str, Any], *, include_stop: bool) -> list[int]:
    """The token ids of a choice that have text."""
    token_ids = choice.get("token_ids") or []
    by_token = choice.get("finish_reason") == "stop" and not isinstance(choice.get("stop_reason"), str)
    return token_ids[:-1] if by_token and not include_stop else token_ids


def cut(text: str, stop: str, *, late: bool) -> str | None:
    """`text` up to the stop string, None where there is none. `late`: with `min_tokens` earlier ones did not count."""
    at = text.rfind(stop) if late else text.find(stop)
    return None if at < 0 else text[:at]


class Hold:
    """The text of one choice of a stream, on its way through: by field, since a parser splits it."""

    def __init__(self, body: dict[str, Any]) -> None:
        stops = strings_of(body)
        self.include = bool(body.get("include_stop_str_in_output"))
        self._late = bool(body.get("min_tokens"))
        self._keep = max((len(stop) for stop in stops), default=1) - 1 if not self.include else 0
        self._field = ""
        self._kept = ""

    def take(self, parts: list[tuple[str, str]], *, flush: bool = False) -> list[tuple[str, str]]:
        """(field, text) in; (field, text) that may be shown out."""
        out: list[tuple[str, str]] = []
        for field, text in parts:
            if field != self._field:
                out.append((self._field, self._kept))
                self._field, self._kept = field, ""
            whole = self._kept + text
            at = max(0, len(whole) - self._keep)
            out.append((field, whole[:at]))
            self._kept = whole[at:]
        if flush:
            out.append((self._field, self._kept))
            self._kept = ""
        return _joined([(field, text) for field, text in out if text])

    def finish(self, parts: list[tuple[str, str]], stop: Any) -> list[tuple[str, str]]:
        """The last of it. `stop` is the engine's `stop_reason`: a string that was found, a token id, or None."""
        if not isinstance(stop, str) or self.include:
            return self.take(parts, flush=True)
        out: list[tuple[str, str]] = []
        for field, text in _joined([(self._field, self._kept), *parts]):
            shown = cut(text, stop, late=self._late)
            out.append((field, text if shown is None else shown))
            if shown is not None:
                break
        self._kept = ""
        return [(field, text) for field, text in out if text]


def _joined(parts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    out: list[tuple[str, str]] = []
    for field, text in parts:
        if out and out[-1][0] == field:
            out[-1] = (field, out[-1][1] + text)
        else:
            out.append((field, text))
    return out
