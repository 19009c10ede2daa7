"""The provider's gRPC side: what the engine asks, answered from the table of kinds.

Not the SDK's `provider.experimental` class: that one hands Diff no old inputs, puts a Python
traceback into every message, and has no word for a resource that exists but did not get ready.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2

from tools.awsim.asking import Aws, AwsError
from tools.awsim.configuration import Configuration, ConfigurationFault, read_configuration
from tools.awsim.invokes import invoke
from tools.awsim.kind import Kind
from tools.awsim.kinds import KINDS
from tools.awsim.properties import (
    Difference,
    Properties,
    differences,
    from_wire,
    merged,
    to_wire,
    with_unknowns,
)
from tools.awsim.shapes import UNKNOWN, ConversionFault

NAME_SUFFIX_BYTES = 4
PropertyDiff: Any = provider_pb2.PropertyDiff
DIFF_KINDS = {
    ("add", False): PropertyDiff.ADD, ("add", True): PropertyDiff.ADD_REPLACE,
    ("delete", False): PropertyDiff.DELETE, ("delete", True): PropertyDiff.DELETE_REPLACE,
    ("update", False): PropertyDiff.UPDATE, ("update", True): PropertyDiff.UPDATE_REPLACE,
}  # fmt: skip


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """One configured provider."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._configuration: Configuration | None = None
        self._regions: dict[str, Aws] = {}
        self._lock = threading.Lock()

    # --- the plugin itself

    def Handshake(self, request: Any, context: Any) -> Any:
        return provider_pb2.ProviderHandshakeResponse()

    def Attach(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=self._version)

    def GetSchema(self, request: Any, context: Any) -> Any:
        return provider_pb2.GetSchemaResponse(schema='{"name": "aws"}')

    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def CheckConfig(self, request: Any, context: Any) -> Any:
        arguments = from_wire(request.news)
        failures = []
        if UNKNOWN not in arguments.values():
            try:
                read_configuration(arguments)
            except ConfigurationFault as fault:
                failures = [provider_pb2.CheckFailure(reason=str(fault))]
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        """Another region or account means other resources: Pulumi's provider replaces them, too."""
        old, new = from_wire(request.old_inputs or request.olds), from_wire(request.news)
        changed = [d for d in differences(old, new) if d.plain_path != "version"]
        replaces = [d.path for d in changed if d.plain_path == "region"]
        some = provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(changes=some, replaces=replaces, diffs=[d.path for d in changed])

    def Configure(self, request: Any, context: Any) -> Any:
        with _refusals(context):
            self._configuration = read_configuration(from_wire(request.args))
        return provider_pb2.ConfigureResponse(supportsPreview=True, acceptSecrets=False, acceptResources=False)

    def Invoke(self, request: Any, context: Any) -> Any:
        arguments = from_wire(request.args)
        with _refusals(context):
            result = invoke(self._aws(arguments), request.tok, arguments)
        answer: dict[str, Any] = {"return": to_wire(result)}
        return provider_pb2.InvokeResponse(**answer)

    # --- resources

    def Check(self, request: Any, context: Any) -> Any:
        kind = self._kind(request.urn, context)
        inputs = from_wire(request.news)
        old = from_wire(request.olds)
        tags = self._settings().default_tags
        if kind.tagging and tags:
            inputs["tags"] = {**tags, **inputs.get("tags", {})} if inputs.get("tags") != UNKNOWN else UNKNOWN
        inputs = _with_name(kind, inputs, old, _name(request.urn), request.randomSeed)
        try:
            reasons = kind.check(kind.named(inputs))
        except ConversionFault as fault:
            reasons = [str(fault)]
        failures = [provider_pb2.CheckFailure(property="", reason=reason) for reason in reasons]
        return provider_pb2.CheckResponse(inputs=to_wire(inputs), failures=failures)

    def Diff(self, request: Any, context: Any) -> Any:
        kind = self._kind(request.urn, context)
        old = from_wire(request.old_inputs) or from_wire(request.olds)
        ignored = set(request.ignoreChanges)
        found = [d for d in differences(*kind.comparable(old, from_wire(request.news))) if not d.below(ignored)]
        forced = kind.forces_new | {"region"}
        detailed = {d.path: _detail(d, d.below(forced)) for d in found}
        replaces = [d.path for d in found if d.below(forced)]
        some = provider_pb2.DiffResponse.DIFF_SOME if found else provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(
            changes=some, replaces=replaces, detailedDiff=detailed, hasDetailedDiff=True,
            diffs=sorted({d.plain_path.split(".")[0] for d in found}),
            deleteBeforeReplace=bool(replaces) and kind.delete_before_replace,
        )  # fmt: skip

    def Create(self, request: Any, context: Any) -> Any:
        kind = self._kind(request.urn, context)
        inputs = from_wire(request.properties)
        if request.preview:
            return provider_pb2.CreateResponse(id="", properties=to_wire(self._preview(kind, inputs)))
        inputs = kind.named(inputs)
        aws = self._aws(inputs)
        with _refusals(context):
            resource = kind.create(aws, inputs)
        state = self._settled(kind, aws, resource, inputs, context, lambda: kind.settle(aws, resource, inputs))
        return provider_pb2.CreateResponse(id=resource, properties=to_wire(state))

    def Update(self, request: Any, context: Any) -> Any:
        kind = self._kind(request.urn, context)
        inputs = from_wire(request.news)
        old = from_wire(request.old_inputs) or from_wire(request.olds)
        state = from_wire(request.olds)
        if request.preview:
            kept = {key: value for key, value in state.items() if key not in old or key in inputs}
            for name in kind.recomputed(old, inputs):
                kept.pop(name, None)
            shown = self._preview(kind, _planned(kind, kept, inputs))
            return provider_pb2.UpdateResponse(properties=to_wire(shown))
        aws = self._aws(inputs)
        known = {**inputs, **({kind.name_input: state.get(kind.name_input)} if kind.name_input else {})}

        def change() -> None:
            tags, new_tags = old.get("tags", {}), inputs.get("tags", {})
            if kind.tagging and tags != new_tags:  # a state that was never read has no ARN to tag by
                kind.tagging.apply(aws, kind.tagged(request.id, state), tags, new_tags)
            before, after = kind.comparable(_untagged(old), _untagged(known))
            if list(differences(_untagged(old), _untagged(inputs))):
                kind.update(aws, request.id, before, after)
            else:  # what failed to get ready at the last update
                kind.settle(aws, request.id, known)

        state = self._settled(kind, aws, request.id, known, context, change)
        return provider_pb2.UpdateResponse(properties=to_wire(state))

    def Read(self, request: Any, context: Any) -> Any:
        kind = self._kind(request.urn, context)
        inputs, state = from_wire(request.inputs), from_wire(request.properties)
        aws = self._aws(inputs or state)
        with _refusals(context):
            found = kind.read(aws, request.id, inputs or state)
        if found is None:
            return provider_pb2.ReadResponse(id="")
        told = kind.found_inputs(inputs, found)
        return provider_pb2.ReadResponse(
            id=request.id, properties=to_wire(_outputs(told, found, aws)), inputs=to_wire(told)
        )

    def Delete(self, request: Any, context: Any) -> Any:
        kind = self._kind(request.urn, context)
        state = from_wire(request.properties)
        with _refusals(context):
            kind.delete(self._aws(state), request.id, state)
        return empty_pb2.Empty()

    # --- helpers

    def _settings(self) -> Configuration:
        assert self._configuration is not None, "the engine configures a provider before it uses it"
        return self._configuration

    def _aws(self, properties: Properties) -> Aws:
        settings = self._settings()
        region = properties.get("region") or settings.region
        with self._lock:
            if region not in self._regions:
                self._regions[region] = Aws(region, settings.credentials, settings.endpoints)
            return self._regions[region]

    def _kind(self, urn: str, context: Any) -> Kind:
        token = urn.split("::")[2].split("$")[-1]
        if token not in KINDS:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, f"the AWS stand-in has no {token}")
        return KINDS[token]

    def _preview(self, kind: Kind, properties: Properties) -> Properties:
        tags = {"tagsAll": properties.get("tags", {})} if kind.tagging else {}
        return with_unknowns({**properties, **tags, "region": self._settings().region}, kind.computed)

    def _settled(
        self, kind: Kind, aws: Aws, resource: str, inputs: Properties, context: Any, work: Callable[[], None]
    ) -> Properties:
        """The state after the work. Whatever fails, the engine learns that the resource exists."""
        failure: AwsError | None = None
        try:
            work()
        except AwsError as error:
            failure = error
        try:
            found = kind.read(aws, resource, inputs)
        except AwsError as error:
            found, failure = None, failure or error
        if found is None and failure is None:
            failure = AwsError(f"{resource} is not there after it was made")
        state = _outputs(inputs, found or {}, aws)
        if failure is not None:
            _abort_unready(context, resource, state, inputs, str(failure))
        return state


def _planned(kind: Kind, state: Properties, inputs: Properties) -> Properties:
    """The old state under the new inputs; objects with outputs of their own keep those."""
    result = dict(state)
    for key, value in inputs.items():
        known: Any = state.get(key)
        has_outputs = any(name.startswith(f"{key}.") for name in kind.computed)
        keeps = has_outputs and isinstance(known, dict) and isinstance(value, dict)
        result[key] = {**known, **value} if keeps else value
    return result


def _outputs(inputs: Properties, found: Properties, aws: Aws) -> Properties:
    state = merged(inputs, found)
    if "tags" in found:
        state |= {"tagsAll": found["tags"]}
        if not found["tags"] and "tags" not in inputs:
            state.pop("tags", None)
    return {**state, "region": aws.region}


def _untagged(inputs: Properties) -> Properties:
    return {key: value for key, value in inputs.items() if key != "tags"}


def _name(urn: str) -> str:
    return urn.split("::")[3]


def _with_name(kind: Kind, inputs: Properties, old: Properties, name: str, seed: bytes) -> Properties:
    """Pulumi's automatic name: the logical one and seven hex digits, kept once it is given."""
    key = kind.name_input
    if key is None or key in inputs or (kind.prefix_input and kind.prefix_input in inputs):
        return inputs
    suffix = "-" + (seed.hex() if seed else secrets.token_hex(NAME_SUFFIX_BYTES))[:7]
    start = "alias/" if kind.token.startswith("aws:kms/alias") else ""
    fresh = f"{start}{name}"[: kind.name_length - len(suffix)] + suffix
    if kind.token.startswith("aws:s3/bucket:"):
        fresh = fresh.lower()
    return {**inputs, key: old.get(key) or fresh}


def _detail(difference: Difference, replace: bool) -> Any:
    return PropertyDiff(kind=DIFF_KINDS[(difference.change, replace)], inputDiff=True)


class _refusals:
    """Turns what AWS refuses into a gRPC error with the message alone."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, (AwsError, ConversionFault, ConfigurationFault)):
            self._context.abort(grpc.StatusCode.UNKNOWN, str(error))


def _abort_unready(context: Any, resource: str, state: Properties, inputs: Properties, reason: str) -> NoReturn:
    """Created but not ready: the wire form is ErrorResourceInitFailed in the status's details
    (pulumi/pulumi pkg/resource/plugin/provider_plugin.go, parseError)."""
    detail = provider_pb2.ErrorResourceInitFailed(
        id=resource, properties=to_wire(state), inputs=to_wire(inputs), reasons=[reason]
    )
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=reason)
    status.details.add().Pack(detail)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(grpc.StatusCode.UNKNOWN, reason)
    raise AssertionError("abort raises")
