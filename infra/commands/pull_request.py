"""What a pull request's pipeline asks: which stacks does the change touch, and what is to be said of one."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from components.hardware.prices import price
from infra.commands.aws import listed_price_of
from infra.commands.complain import complain
from infra.comment import Base, Planned, refused
from infra.comment import comment as comment_on
from infra.preview_events import AGAIN, Preview, PreviewUnreadable, read_preview
from infra.read_plan import inspect_plan
from infra.redaction import Redaction, credentials
from infra.settings import SettingsError
from infra.stack_file import FOLDER, StackFileError, known_stacks, read_values, stack_file, stack_of, values_of
from infra.touched import touched as touched_by

PROJECT_FOLDER = Path(__file__).resolve().parents[2]

Stack = Annotated[str, typer.Option(help="a stack file's name: stacks/Pulumi.<name>.yaml")]
PreviewFile = Annotated[Path, typer.Option(help="the events that `pulumi preview --json` streamed")]
BaseFile = Annotated[Path | None, typer.Option(help="the base branch's stack file; without: the stack is new")]
Listed = Annotated[bool, typer.Option(help="prices from AWS's price list; needs credentials")]
BaseRef = Annotated[str, typer.Option(help="the branch or commit that the change is compared with")]
Among = Annotated[list[str] | None, typer.Argument(help="only these stacks; default: all that have a file")]


def comment(stack: Stack, preview: PreviewFile, base: BaseFile = None,
            commit: Annotated[str, typer.Option(help="what was previewed; shown")] = "",
            listed: Listed = False) -> None:  # fmt: skip
    """A pull request's comment on a stack as Markdown: resources, plan, cost against the base, policies.

    Exit code 0: it could be deployed; 1: the comment says why not; 2: no comment, and why.
    """
    try:
        values = read_values(PROJECT_FOLDER, stack)
    except StackFileError as error:
        complain(_deleted(stack, str(error)) if error.missing else str(error))
    found = _read(preview, stack)
    planned = _planned(values, stack)
    text = comment_on(stack, found, planned, _base(base, stack), commit, listed_price_of if listed else price)
    print(Redaction(credentials(os.environ))(text), end="")
    raise typer.Exit(1 if refused(found, planned) else 0)


def touched(base: BaseRef, stacks: Among = None,
            as_json: Annotated[bool, typer.Option("--json", help="one JSON object")] = False) -> None:  # fmt: skip
    """The stacks that a change touches: their files, what those name, or the program of them all."""
    start = _git("merge-base", base, "HEAD").strip()
    paths = _git("diff", "--name-only", "--no-renames", "-z", start, "HEAD").split("\0")
    earlier = _git("ls-tree", "--name-only", "-z", start, f"{FOLDER}/").split("\0")
    now = {name: _content(name) for name in known_stacks(PROJECT_FOLDER)}
    found = touched_by([path for path in paths if path], now, [name for path in earlier if (name := stack_of(path))])
    changed = [name for name in found.changed if not stacks or name in stacks]
    deleted = [name for name in found.deleted if not stacks or name in stacks]
    for name in deleted:
        typer.echo(f"warning: {_deleted(name, f'{FOLDER}/Pulumi.{name}.yaml is deleted')}", err=True)
    if as_json:
        print(json.dumps({"changed": changed, "deleted": deleted}))
    else:
        print("".join(f"{name}\n" for name in changed), end="")


def _deleted(stack: str, found: str) -> str:
    return (f"{stack}: {found}; there is nothing to preview, and what the stack has deployed stays as it is. To take it "
            f"away, run `pulumi destroy --stack {stack}` on a commit that has the file, then delete the file; to keep "
            "the stack, restore the file")  # fmt: skip


def _read(path: Path, stack: str) -> Preview:
    try:
        found = read_preview(path.read_text(), str(path))
    except PreviewUnreadable as error:
        complain(f"--preview: {error}")
    except (OSError, UnicodeDecodeError) as error:
        complain(f"--preview: {path} can't be read: {error}; {AGAIN}")
    if found.stack and found.stack != stack:
        complain(f"--preview: {path} is of stack {found.stack}, wanted {stack}'s; {AGAIN}")
    return found


def _planned(values: dict[str, Any], stack: str) -> Planned:
    try:
        plan, files, findings = inspect_plan(values, PROJECT_FOLDER, stack)
    except SettingsError as error:
        return Planned(None, faults=error.faults)
    return Planned(plan, findings, files.faults)


def _base(path: Path | None, stack: str) -> Base:
    """The base's plan, by this branch's rules and prices: what differs is the stack file's doing."""
    if path is None:
        return Base(None, "the stack is new: the base branch has no file of it")
    try:
        plan, _, _ = inspect_plan(values_of(path.read_text(), str(path)), PROJECT_FOLDER, stack)
    except SettingsError as error:
        return Base(None, f"unknown: the base branch's stack file has {len(error.faults)} fault(s)")
    except StackFileError as error:
        return Base(None, f"unknown: the base branch's stack file can't be read: {error}")
    except OSError as error:
        complain(f"--base: {path} can't be read: {error}; leave it out for a stack that is new")
    return Base(plan)


def _content(stack: str) -> Any:
    """A file that is no YAML names nothing; its preview says what is wrong with it."""
    try:
        return yaml.safe_load(stack_file(PROJECT_FOLDER, stack).read_text())
    except yaml.YAMLError:
        return None


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(PROJECT_FOLDER), *arguments], capture_output=True, text=True)
    if done.returncode:
        said = " ".join(done.stderr.split()) or "no such commit in common"
        complain(f"--base: git {arguments[0]} found: {said}; wanted a commit that this clone holds with its history: "
                 "fetch the base branch (actions/checkout: fetch-depth: 0; GitLab: GIT_DEPTH: 0)")  # fmt: skip
    return done.stdout
