"""Before anything is measured: whether both tiers can be, all faults at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from components.check.client import Client, NeedsKey, NoAnswer, OtherProcess, Refused
from components.check.engine import SEVERAL, Engine, Unfit, inspect, prove_own_counter, same_engine
from components.check.length import Length, choose_length
from components.check.settings import CannotCheck, Deployment, Fault, Settings
from components.release import probe
from components.release.probe import CannotMeasure

T = TypeVar("T")
KEY_WAY_OUT = "set it in the environment and name the variable: --api-key-env NAME"


@dataclass(frozen=True)
class Ready:
    """Engines that can be measured by one model and one length; `notes` are what a reader should know."""

    prefill: tuple[Engine, ...]
    decode: tuple[Engine, ...]
    model: str
    length: Length
    notes: tuple[str, ...]

    @property
    def engines(self) -> dict[str, Engine]:
        """By URL."""
        return {engine.target.url: engine for engine in (*self.prefill, *self.decode)}


def preflight(client: Client, deployment: Deployment, settings: Settings) -> Ready:
    """Ask every engine. Raises CannotCheck with everything that stands in the way."""
    prefill = _gather(deployment.prefill, lambda target: inspect(client, target))
    decode = _gather(deployment.decode, lambda target: inspect(client, target))
    _stop(prefill.faults + decode.faults)
    engines = prefill.engines + decode.engines
    length, faults = None, _one_engine(prefill.engines, decode.engines)
    try:
        length = choose_length(engines, settings)
    except CannotCheck as error:
        faults += error.faults
    model, more = _model(engines, settings.model)
    _stop(faults + more)
    assert length is not None  # else there was a fault
    _stop(_gather(engines, lambda engine: _prove(client, engine, model)).faults)
    if deployment.router and (fault := _router(client, deployment.router, model)):
        _stop([fault])
    notes = [length.note] if length.note else []
    notes += _differences(prefill.engines, decode.engines, model)
    return Ready(tuple(prefill.engines), tuple(decode.engines), model, length, tuple(notes))


@dataclass(frozen=True)
class _Gathered:
    engines: list[Engine]
    faults: list[Fault]


def _gather(asked: Iterable[T], ask: Callable[[T], Engine]) -> _Gathered:
    engines, faults = [], []
    for one in asked:
        try:
            engines.append(ask(one))
        except Unfit as error:
            faults.append(Fault(error.kind, str(error)))
        except CannotMeasure as error:
            faults.append(fault_of(error))
    return _Gathered(engines, faults)


def fault_of(error: CannotMeasure) -> Fault:
    """The word and the way out for what a client met."""
    if isinstance(error, NeedsKey):
        return Fault("needs-key", f"{error}; {KEY_WAY_OUT}")
    if isinstance(error, NoAnswer):
        return Fault("no-answer", (
            f"{error}; wanted a vLLM engine there that can be reached from here: correct the address, or forward "
            "the port"))  # fmt: skip
    if isinstance(error, Refused) and error.status >= 500:
        return Fault("not-serving", f"{error}; wanted an engine that serves: is it still loading, or overloaded?")
    if isinstance(error, OtherProcess):
        return Fault("several-pods", f"{error}; {SEVERAL}")
    return Fault("not-vllm", f"{error}; wanted a vLLM engine's API there")


def _stop(faults: list[Fault]) -> None:
    if faults:
        raise CannotCheck(faults)


def _prove(client: Client, engine: Engine, model: str) -> Engine:
    prove_own_counter(client, engine, model)
    return engine


def _model(engines: list[Engine], stated: str | None) -> tuple[str, list[Fault]]:
    """The name that every engine serves."""
    common = [name for name in engines[0].models if all(name in engine.models for engine in engines)]
    found = "; ".join(f"{engine.target.url} serves {', '.join(engine.models)}" for engine in engines)
    if stated is not None and stated not in common:
        return stated, [
            Fault("other-model", f"--model: found {stated}, but {found}; wanted a name that all of them have")
        ]
    if not common:
        return "", [Fault("different-models", (
            f"prefill and decode run different models: {found}; a KV cache is of use to its own model alone: wanted "
            "engines of one deployment"))]  # fmt: skip
    return stated or common[0], []


def _one_engine(prefill: list[Engine], decode: list[Engine]) -> list[Fault]:
    """URLs of both tiers behind which one process is: nothing would be transferred."""
    return [_shared(one, other) for one in prefill for other in decode if same_engine(one, other)]


def _shared(one: Engine, other: Engine) -> Fault:
    return Fault("same-engine", (
        f"{one.target.url} and {other.target.url} are one and the same engine, given for both tiers; wanted a prefill "
        "engine and a decode engine: for one tier alone there is nothing to check"))  # fmt: skip


def _differences(prefill: list[Engine], decode: list[Engine], model: str) -> list[str]:
    """What the tiers say of themselves that should be alike."""
    notes = []
    facts = {
        "the model behind its name": lambda engine: engine.models[model],
        "block size": lambda engine: engine.block_size,
        "KV cache dtype": lambda engine: engine.cache_dtype,
    }
    for what, of in facts.items():
        sides = [sorted({str(of(engine)) for engine in side}) for side in (prefill, decode)]
        if sides[0] != sides[1] or len(sides[0]) > 1:
            notes.append(f"the tiers differ in {what}: prefill {', '.join(sides[0])}; decode {', '.join(sides[1])}")
    return notes


def _router(client: Client, url: str, model: str) -> Fault | None:
    """Why the router can't be asked; one that answers with an error of its own is judged, not excused."""
    plan = {"model": model, "vocabulary": 0}
    try:
        probe.complete(client, url, plan, probe.random_prompt(plan, probe.WARM_UP_TOKENS), 1)
    except Refused as error:
        return (
            None if error.status >= 500 else Fault("not-a-router", f"{error}; wanted a router's /v1/completions there")
        )
    except CannotMeasure as error:
        return fault_of(error)
    return None
