"""What is read from a preview's events: all of it, or one message; never a secret."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra.preview_events import PreviewUnreadable, read_preview
from infra.redaction import SECRET, SECRET_SIGNATURE, SIGNATURE_KEY, Redaction, credentials, secret_texts
from tests.unit.previews import END, FAILED, SUMMARY, policy, said, step, stream

WRAPPED = {SIGNATURE_KEY: SECRET_SIGNATURE, "plaintext": '"hunter2-wrapped"'}


def read(*events: dict[str, Any], **more: Any) -> Any:
    return read_preview(stream(*events, **more), "preview.json")


def test_a_replacement_counts_once_and_names_what_forces_it() -> None:
    parts = [step(op, keys=["cidrBlock"]) for op in ("create-replacement", "replace", "delete-replaced")]
    found = read(*parts, step("same", name="other"), step("update", name="third", diffs=["tags"]))
    assert [(c.operation, c.name, c.keys) for c in found.changes] == [
        ("replace", "net", ("cidrBlock",)), ("update", "third", ("tags",))
    ]  # fmt: skip
    assert (found.stack, found.unchanged, found.failed) == ("dev", 1, False)


def test_components_and_providers_are_no_resources() -> None:
    found = read(
        step("create", "pulumi:providers:aws"), step("create", "splitserve:platform:Network", new={"custom": False})
    )
    assert found.changes == ()


def test_policies_and_errors_are_read_and_noise_is_not() -> None:
    found = read(
        policy("tls", "mandatory", "Clients speak TLS.\nListener `a`: found HTTP, wanted TLS\n"), said("debug", "x"),
        said("warning", "using pulumi-resource-aws from $PATH"), said("warning", "look here"), said("error", "preview failed"),
        end=(FAILED, END),
    )  # fmt: skip
    assert [(f.policy, f.level, f.stops, f.text) for f in found.policies] == [
        ("tls", "mandatory", True, "Listener `a`: found HTTP, wanted TLS")
    ]
    assert (found.errors, found.warnings, found.failed, found.policies_ran) == ((), ("look here",), True, True)


def test_a_violation_with_an_exception_does_not_stop() -> None:
    event = policy("tls", "mandatory", "a\nb")
    event["policyEvent"]["exceptions"] = [{"id": "EXC-1", "reason": "known"}]
    assert [(f.level, f.stops) for f in read(event).policies] == [("mandatory, excepted", False)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "found nothing"),
        (" \n", "pulumi stack init"),
        (stream(step("create"))[:-300], "found no event of Pulumi"),
        (stream(step("create"), end=()), "no summary"),
        ("error: no stack named 'dev' found\n", "line 1: found no event"),
        ("[1]\n", "found no event"),
        (json.dumps({"steps": [], "changeSummary": {}}, indent=4), "found the digest of a preview"),
        (stream(end=({"summaryEvent": {**SUMMARY["summaryEvent"], "isPreview": False}},)), "events of an update"),
    ],
)
def test_what_is_no_whole_preview_is_refused_with_the_way_out(text: str, words: str) -> None:
    with pytest.raises(PreviewUnreadable) as error:
        read_preview(text, "preview.json")
    assert words in str(error.value) and "PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true pulumi preview" in str(error.value)


def test_secrets_are_found_in_every_state_of_a_resource() -> None:
    old = {"inputs": {"password": "hunter2-old", "list": [{"key": "plain-in-old"}], "pin": 123456}}
    new = {"inputs": {"password": SECRET, "list": [{"key": SECRET}], "pin": WRAPPED, "name": "public"}}
    found = read(
        step("update", old=old, new=new),
        said("error", "login with hunter2-old failed, so did plain-in-old, 123456 and hunter2-wrapped of public"),
    )
    assert found.errors == ("login with [secret] failed, so did [secret], [secret] and [secret] of public",)


def test_a_secret_s_lines_and_its_plain_text_are_secrets_by_themselves() -> None:
    redact = Redaction(
        secret_texts(
            [
                {
                    "config": {
                        SIGNATURE_KEY: SECRET_SIGNATURE,
                        "plaintext": json.dumps("token: abcdefgh\nuser: someone-else"),
                    }
                }
            ]
        )
    )
    assert redact("token: abcdefgh, user: someone-else") == "[secret], [secret]"


def test_credentials_of_the_environment_are_known_by_their_names() -> None:
    environment = {
        "AWS_SECRET_ACCESS_KEY": "0123456789",
        "PULUMI_CONFIG_PASSPHRASE": "correct horse",
        "PATH": "/usr/bin:/bin",
        "X_TOKEN": "short",
    }
    assert sorted(credentials(environment)) == ["0123456789", "correct horse"]
