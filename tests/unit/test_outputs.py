"""The contract of outputs: what the program writes is what the reader reads, and every other thing has one answer."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitserve.contract import PROMISES, SECRET, VERSION
from splitserve.outputs import LastUpdate, Live, Outputs, OutputsError, SecretReference, parse, parse_json
from tests.exported import FAIL, NOT_READY, PASS, UNKNOWN, outputs_after, passed, referenced, release
from tests.unit.plans import ROOT

STACK = "organization/splitserve/prod"
CLUSTER = {"contract": 1, "name": "prod", "region": "us-east-1", "securityGroup": "sg-1", "efaSecurityGroup": "sg-2"}
OLD = {"endpoint": "http://a", "model": "m", "live": "r1", "verdict": "pass", "ledger": {"version": 1}, "gate": {}}


def refused(values: Any, problem: str, *words: str) -> OutputsError:
    with pytest.raises(OutputsError) as caught:
        parse(values, STACK)
    error = caught.value
    assert (error.problem, error.where) == (problem, STACK)
    for word in (STACK, problem, error.found, error.wanted, error.way_out, *words):
        assert word and word in str(error)
    return error


def answer(values: Any) -> Outputs | OutputsError:
    try:
        return parse(values, STACK)
    except OutputsError as error:
        return error


def changed(**values: Any) -> dict[str, Any]:
    return passed() | values


def test_every_field_of_a_passed_release_is_read() -> None:
    found = parse(changed(cluster=CLUSTER, ca="PEM"), STACK)
    assert (found.stack, found.contract, found.endpoint, found.model, found.ca) == (
        STACK, VERSION, "http://10.0.0.9", "tiny", "PEM",
    )  # fmt: skip
    assert found.live == Live("r1", "note of r1", "pass", 20.5, 30.25, False)
    assert found.last_update == LastUpdate("r1", "pass", "fast", "KV transfer 20 ms", "")
    assert found.ledger["live"]["release"]["id"] == "r1" and found.gate["evidence"] == {"pairs": []}
    assert found.cluster and (found.cluster.security_group, found.cluster.efa_security_group) == ("sg-1", "sg-2")
    assert found.require_passed() is found


@pytest.mark.parametrize("verdict", [PASS, FAIL, UNKNOWN, NOT_READY])
def test_a_stack_reference_and_the_command_line_give_the_same(verdict: Any) -> None:
    values = outputs_after((release("r1", secret="keys"), PASS), (release("r2"), verdict))
    plain, by_reference = parse_json(json.dumps(values), STACK), parse(referenced(values), STACK)
    for part in ("endpoint", "ca", "model", "api_key_secret", "live", "last_update", "cluster"):
        assert getattr(plain, part) == getattr(by_reference, part)


def test_what_there_is_not_is_none() -> None:
    found = parse(passed(), STACK)
    assert found.ca is found.api_key_secret is found.cluster is None


def test_the_keys_are_named_and_never_told() -> None:
    found = parse(passed(secret="chat-keys"), STACK)
    assert found.api_key_secret == SecretReference("team", "chat-keys", "api-key")


@pytest.mark.parametrize("verdict", [FAIL, UNKNOWN, NOT_READY])
def test_after_a_refused_release_everything_is_still_the_live_one_s(verdict: Any) -> None:
    values = outputs_after((release("r1", secret="keys"), PASS), (release("r2", model="other"), verdict))
    found = parse(values, STACK)
    assert (found.model, found.live) == ("tiny", Live("r1", "note of r1", "pass", 20.5, 30.25, False))
    assert found.api_key_secret and found.api_key_secret.name == "keys"
    assert (found.last_update.release, found.last_update.verdict) == ("r2", verdict.outcome)
    assert found.gate["verdict"]["cause"] == verdict.cause


@pytest.mark.parametrize("verdict", [FAIL, UNKNOWN])
def test_who_is_strict_is_told_why(verdict: Any) -> None:
    found = parse(outputs_after((release("r1"), PASS), (release("r2"), verdict)), STACK)
    with pytest.raises(OutputsError) as caught:
        found.require_passed()
    for word in ("not passed", STACK, "r2", verdict.outcome, verdict.cause, "r1 is live still", verdict.fix):
        assert word in str(caught.value)


def test_a_live_release_that_was_found_bad_later_says_so() -> None:
    """The same configuration again, whose pods were measured again."""
    found = parse(outputs_after((release("r1"), PASS), (release("r1"), FAIL)), STACK)
    assert (found.live.release, found.live.verdict) == ("r1", "fail")
    with pytest.raises(OutputsError, match="r1: fail"):
        found.require_passed()


def test_a_top_level_value_that_the_engine_kept_is_not_believed() -> None:
    """A collocated release moves no KV; after a failed update the engine keeps an output's last value for a null."""
    collocated = PASS.__class__("pass", "collocated", "no KV is transferred", "")
    values = outputs_after((release("r1"), collocated), (release("r2"), FAIL)) | {"kvTransferMs": 99.0}
    assert parse(values, STACK).live.kv_transfer_ms is None


def test_a_ledger_of_an_earlier_version_gets_its_times_from_the_next_update() -> None:
    values = passed()
    del values["ledger"]["live"]["measured"]
    assert parse(values, STACK).live.kv_transfer_ms is None
    again = outputs_after((release("r1"), PASS.__class__("pass", "fast", "", "")), (release("r1"), PASS))
    assert parse(again, STACK).live.kv_transfer_aged_ms == 30.25


@pytest.mark.parametrize("values", [None, [], "text", 3, b""])
def test_what_is_no_mapping_can_not_be_read(values: Any) -> None:
    refused(values, "unreadable", "PULUMI_BACKEND_URL")


@pytest.mark.parametrize("text", ["", "error: no stack named 'prod' found", "[1]", "{"])
def test_what_the_command_printed_instead_is_shown(text: str) -> None:
    with pytest.raises(OutputsError) as caught:
        parse_json(text, STACK)
    assert caught.value.problem == "unreadable" and text in str(caught.value)


def test_a_stack_that_is_not_up_says_what_to_run() -> None:
    refused({}, "not up", f"pulumi up --stack {STACK}")


def test_an_older_contract_is_told_from_another_stack() -> None:
    refused(OLD, "older contract", "without `contract`", "run `pulumi up` there")
    refused({"cluster": CLUSTER, "nodePlugins": {}}, "not a serving stack", "layers: cluster", "layers: serving")
    refused({"bucket": "b", "url": "u"}, "not a serving stack", "bucket, url")


@pytest.mark.parametrize("version", [VERSION + 1, float(VERSION + 1), 40])
def test_a_newer_contract_is_not_guessed_at(version: Any) -> None:
    refused({"contract": version}, "newer contract", f"contract {version:g}", f"contract {VERSION}")


@pytest.mark.parametrize("version", [0, -1, 1.5, "1", True, [], {}, float("nan"), float("inf"), SECRET])
def test_a_contract_that_is_no_number_is_malformed(version: Any) -> None:
    refused(changed(contract=version), "malformed", "contract: ")


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"endpoint": None}, "endpoint: nothing, wanted an address"),
        ({"endpoint": "10.0.0.9"}, "endpoint: '10.0.0.9', wanted an address that begins with http:// or https://"),
        ({"model": ""}, "model: '', wanted a text"),
        ({"model": SECRET}, "model: a secret, wanted a text"),
        ({"ca": None}, "ca: nothing, wanted a text"),
        ({"apiKeySecret": {"namespace": "n"}}, "apiKeySecret.name: nothing"),
        ({"apiKeySecret": "keys"}, "apiKeySecret: 'keys', wanted an object"),
        ({"lastUpdate": {}}, "lastUpdate.verdict: nothing, wanted pass or fail or inconclusive"),
        ({"lastUpdate": None}, "lastUpdate: nothing, wanted an object"),
        ({"gate": {"verdict": {}}}, "gate.evidence: nothing"),
        ({"ledger": SECRET}, "ledger: a secret, wanted an object"),
        ({"ledger": {"live": {"release": {"note": ""}}}}, "ledger.live.release.id: nothing"),
        ({"cluster": {"name": "prod"}}, "cluster.securityGroup: nothing"),
    ],
)
def test_what_is_not_as_promised_is_named(values: dict[str, Any], fault: str) -> None:
    refused(changed(**values), "malformed", fault, "docs/reference/outputs.md")


@pytest.mark.parametrize("time", [-1, "20", True, float("nan"), float("inf")])
def test_a_time_that_is_none_is_named(time: Any) -> None:
    values = passed()
    values["ledger"]["live"]["measured"]["kv_transfer_ms"] = time
    refused(values, "malformed", "ledger.live.measured.kv_transfer_ms")


def test_all_faults_come_in_one_message() -> None:
    refused(changed(endpoint="", model=None, ca=3), "malformed", "endpoint: ", "model: ", "ca: 3")


@pytest.mark.parametrize("verdict", [FAIL, UNKNOWN, NOT_READY])
def test_without_a_live_release_nothing_is_read(verdict: Any) -> None:
    refused(outputs_after((release("r1"), verdict)), "no live release", "r1", verdict.message, verdict.fix)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=6,
)


@given(JSON, st.lists(st.tuples(st.sampled_from(sorted(passed() | {"cluster": {}})), JSON), max_size=3))
def test_whatever_is_read_there_is_a_typed_answer(other: Any, changes: list[tuple[str, Any]]) -> None:
    for values in (other, changed(**dict(changes))):
        found = answer(values)
        assert isinstance(found, Outputs) or (found.found and found.wanted and found.way_out)


@given(st.data())
def test_whatever_is_missing_within_is_named_or_none(data: st.DataObject) -> None:
    values = passed(secret="keys")
    place: Any = values
    while isinstance(place, dict) and place:
        key = data.draw(st.sampled_from(sorted(place)))
        if data.draw(st.booleans()) or not isinstance(place[key], dict):
            del place[key]
            break
        place = place[key]
    found = answer(values)
    assert isinstance(found, Outputs) or found.problem in ("malformed", "no live release", "older contract")


def test_the_program_exports_what_is_promised_and_nothing_else() -> None:
    top = {promise.name for promise in PROMISES if "." not in promise.name}
    assert set(passed()) == top - {"cluster"}


@pytest.mark.parametrize("promise", [p for p in PROMISES if not p.name.startswith("cluster")], ids=lambda p: p.name)
def test_every_promise_is_kept(promise: Any) -> None:
    value: Any = passed(secret="keys")
    for key in promise.name.split("."):
        assert key in value, promise.name
        value = value[key]
    assert isinstance(value, {"text": str, "number": int | float, "object": dict}[promise.form])


def test_another_team_s_program_needs_nothing_of_the_deploying_one() -> None:
    """Not even Pulumi's SDK for plain data."""
    script = (
        "import sys; import splitserve.outputs; "
        "theirs = {m.split('.')[0] for m in sys.modules} - set(sys.stdlib_module_names); print(sorted(theirs))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout.replace("'", '"'))) - {"__main__"} == {"splitserve"}
