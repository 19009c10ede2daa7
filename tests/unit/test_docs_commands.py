"""Commands and settings in pages are ones that there are: asked of the Makefile, the CLI's own parser and the schema."""

from __future__ import annotations

import importlib.util
import re
from typing import Any, get_args

import pytest
import typer.main
import yaml
from pydantic import BaseModel

from components.autoscaler.signals import DEFAULT_TARGETS
from infra.cli import app
from infra.outputs_table import outputs_table
from infra.settings import Settings, SettingsError, load
from tests.unit.documents import codes, commands, fences, pages, shell_lines
from tests.unit.plans import ROOT, stack_values

PAGES = pages()
CLI: Any = typer.main.get_command(app)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
SHELL = ("make ", "splitserve ", "pulumi ", "kubectl ", "python -m ")
SIGNALS = {f"{tier}.{signal}" for tier, signals in DEFAULT_TARGETS.items() for signal in signals}
OUTPUTS = set(re.findall(r"^\| `([^`]+)`", outputs_table(), re.MULTILINE))
KEY = re.compile(r"([a-z][A-Za-z]+(?:\.(?:[A-Za-z0-9]+|\*))+)(?:: .*)?")


def fault(words: list[str]) -> str | None:
    """What is wrong with one simple command, as far as it is ours."""
    name, *arguments = words
    if name == "make":
        wanted = [word for word in arguments if not word.startswith("-") and "=" not in word]
        unknown = [word for word in wanted if word not in TARGETS]
        return f"make: no target {', '.join(unknown)}" if unknown else None
    if name == "splitserve":
        return _parsed(arguments)
    if name == "python" and arguments[:1] == ["-m"]:
        return None if importlib.util.find_spec(arguments[1]) else f"no module {arguments[1]}"
    if "/" in name and not name.startswith("http"):
        return None if (ROOT / name).exists() else f"no file {name}"
    return None


def _parsed(arguments: list[str]) -> str | None:
    """What the command's own parser says of these arguments."""
    if not arguments or arguments[0] not in CLI.commands:
        return f"splitserve: no command {arguments[:1]}"
    if "--help" in arguments:
        return None
    try:
        CLI.commands[arguments[0]].make_context(arguments[0], list(arguments[1:]))
    except Exception as error:  # click's, which typer keeps to itself
        return f"splitserve {' '.join(arguments)}: {error}"
    return None


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_block_is_one_that_there_is(page: str) -> None:
    found = [fault(words) for line in shell_lines(page) for words in commands(line)]
    assert [one for one in found if one] == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_the_text_name_targets_subcommands_and_flags_that_there_are(page: str) -> None:
    wrong = []
    for code in codes(page):
        words = code.split()
        if code.startswith("make ") and words[1] not in TARGETS and not words[1].startswith("-"):
            wrong.append(code)
        if code.startswith("splitserve ") and words[1] != "…":
            command = CLI.commands.get(words[1])
            known = {flag for one in command.params for flag in one.opts} | {"--help"} if command else set[str]()
            if not command or any(word not in known for word in words[2:] if word.startswith("--")):
                wrong.append(code)
    assert wrong == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_stand_in_blocks_that_are_looked_at(page: str) -> None:
    others = [fence for fence in fences(page) if fence.language not in ("sh", "python")]
    assert [f"line {fence.line}" for fence in others if fence.content.startswith(SHELL)] == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("make no-such-target", "no target"),
        ("splitserve report --stak prod", "No such option"),
        ("splitserve nothing", "no command"),
        ("splitserve expect --model x", "Missing"),
        ("python -m tools.nothing", "no module"),
        ('eval "$(make -s nothing)"', "no target"),
        ("KEY=1 splitserve check --nope > file", "No such option"),
        ("endpoint=$(splitserve nothing)", "no command"),
        (".ci/nothing dev", "no file"),
    ],
)
def test_a_wrong_command_is_found(line: str, words: str) -> None:
    found = [one for simple in commands(line) if (one := fault(simple))]
    assert len(found) == 1 and words in found[0], found


def _section(annotation: Any) -> type[BaseModel] | None:
    kinds = [annotation, *get_args(annotation)]
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def is_setting(path: str) -> bool:
    """Whether a dotted path is a setting or a section; below a dictionary or a list anything goes."""
    section: type[BaseModel] | None = Settings
    for key in path.split("."):
        if section is None or (key == "*" and path.endswith("*")):
            return True
        fields = {field.alias or name: field for name, field in section.model_fields.items()}
        if key in ("*", "TIER"):
            key = next(iter(fields))
        if key not in fields:
            return False
        annotation = fields[key].annotation
        if _section(annotation) is None and not any(kind in (dict, list) for kind in _origins(annotation)):
            return path.endswith(key)
        section = _section(annotation)
    return True


def _origins(annotation: Any) -> set[Any]:
    kinds = [annotation, *get_args(annotation)]
    return {getattr(kind, "__origin__", kind) for kind in kinds}


@pytest.mark.parametrize("page", PAGES)
def test_every_setting_that_is_named_is_one(page: str) -> None:
    sections = {field.alias or name for name, field in Settings.model_fields.items()}
    named = {found.group(1) for code in codes(page) if (found := KEY.fullmatch(code))}
    others = SIGNALS | OUTPUTS
    of_ours = {path for path in named if path.split(".")[0] in sections} - others
    assert sorted(path for path in of_ours if not is_setting(path)) == []


def test_a_setting_that_is_none_would_be_found() -> None:
    assert is_setting("gate.limitMs") and is_setting("platform.aws.nodeGroups.*.capacity")
    assert (
        not is_setting("gate.limitS") and not is_setting("engine.parallel.tensors") and not is_setting("gate.limitMs.x")
    )


BLOCKS = [
    (page, fence)
    for page in PAGES
    for fence in fences(page)
    if "splitserve:" in fence.content and fence.language == "yaml"
]


@pytest.mark.parametrize(("page", "fence"), BLOCKS, ids=[f"{page}:{fence.line}" for page, fence in BLOCKS])
def test_stack_files_in_pages_hold_known_settings(page: str, fence: Any) -> None:
    """What a block leaves out is taken from a stack file; one key that comes twice is two examples."""
    for values in _examples(fence.content):
        base = stack_values("prod" if (values.get("platform") or {}).get("kind") == "aws" else "onprem")
        merged = values if (values.get("platform") or {}).get("layers") == "cluster" else {**base, **values}
        for key in merged:
            if key in values and isinstance(base.get(key), dict) and key not in ("platform", "model"):
                merged[key] = {**base[key], **values[key]}
        try:
            load(merged, page)
        except SettingsError as error:
            pytest.fail(str(error))


def _examples(text: str) -> list[dict[str, Any]]:
    """The keys of a block without their prefix, one mapping for each time that a key comes again."""
    parts = re.split(r"(?m)^(?=splitserve:model)", text) if text.count("splitserve:model:") > 1 else [text]
    found = []
    for part in parts:
        content = yaml.safe_load(part.replace("…", "x").replace("<commit>", "main")) or {}
        content = content.get("config", content)
        if content:
            found.append({key.removeprefix("splitserve:"): value for key, value in content.items()})
    return found
