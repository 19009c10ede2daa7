"""The project's Markdown files as tests read them: links, anchors, fenced blocks, commands."""

from __future__ import annotations

import functools
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.unit.plans import ROOT

REDIRECTIONS = {">", ">>", "<", "2>"}
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


@functools.cache
def pages() -> tuple[str, ...]:
    """Every Markdown file of the repository, from its root; hidden folders are tools' and caches'."""
    found: list[str] = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "node_modules"]
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in files if name.endswith(".md")]
    return tuple(sorted(found))


@dataclass(frozen=True)
class Fence:
    """A fenced block: the words after its fence, its content, and the line that it begins at."""

    language: str
    content: str
    line: int


@functools.cache
def _tokens(page: str) -> tuple[Token, ...]:
    return tuple(MarkdownIt("commonmark").enable("table").parse((ROOT / page).read_text()))


def _inline(page: str) -> Iterator[Token]:
    for token in _tokens(page):
        yield from token.children or ()


def links(page: str) -> list[str]:
    """Addresses of links and pictures."""
    return [str(token.attrs["href"]) for token in _inline(page) if token.type == "link_open"] + [
        str(token.attrs["src"]) for token in _inline(page) if token.type == "image"
    ]


def codes(page: str) -> list[str]:
    """What stands between backticks in the text."""
    return [token.content for token in _inline(page) if token.type == "code_inline"]


def fences(page: str) -> list[Fence]:
    return [
        Fence(token.info, token.content, (token.map or [0])[0] + 1) for token in _tokens(page) if token.type == "fence"
    ]


def anchors(page: str) -> set[str]:
    """GitHub's: lower case, no punctuation, hyphens for spaces, a number where one comes again."""
    found: set[str] = set()
    tokens = _tokens(page)
    for heading, inside in pairwise(tokens):
        if heading.type != "heading_open":
            continue
        words = "".join(part.content for part in inside.children or () if part.type in ("text", "code_inline"))
        slug = re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")
        number, free = 0, slug
        while free in found:
            number += 1
            free = f"{slug}-{number}"
        found.add(free)
    return found


def shell_lines(page: str) -> list[str]:
    """The commands of its `sh` blocks, a line each: continued lines joined, comments gone."""
    found: list[str] = []
    for fence in fences(page):
        if fence.language == "sh":
            lines = fence.content.replace("\\\n", " ").splitlines()
            found += [" ".join(re.sub(r"(^|\s)#.*$", "", line).split()) for line in lines]
    return [line for line in found if line]


def commands(line: str) -> Iterator[list[str]]:
    """The simple commands of a line, those of `$(…)` too, without assignments and redirections. Raises ValueError."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    skip = False
    for word in lexer:
        if skip:
            skip = False
        elif word in REDIRECTIONS:
            skip = True
        elif set(word) <= set("|&;()"):
            yield from _commands_of(words)
            words = []
        elif nested := re.fullmatch(r"\$\((.*)\)", word):
            yield from commands(nested.group(1))
        else:
            words.append(word)
    yield from _commands_of(words)


def _commands_of(words: list[str]) -> Iterator[list[str]]:
    while words and ASSIGNMENT.match(words[0]):
        words = words[1:]
    if words:
        yield words
