"""Every link of every Markdown file leads somewhere, and every file that a page names is there."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt

from tests.unit.documents import anchors, codes, links, pages
from tests.unit.plans import ROOT
from tools.site_links import for_site

PAGES = pages()
HOME = re.compile(r"(docs|tests|components|tools|infra|stacks|examples|policies|benchmarks|splitserve)/[\w./-]+[\w]")
SUFFIX = re.compile(r"\.(py|md|yaml|yml|json|jsonl|toml|sh|prom|svg)$")


def faults(page: str) -> list[str]:
    """What is wrong with the links of a page."""
    found = []
    for link in links(page):
        parts = urlsplit(link)
        if parts.scheme:
            if parts.scheme != "https" or "." not in parts.netloc or " " in link:
                found.append(f"{link}: no https address")
            continue
        target = (ROOT / page).parent / unquote(parts.path) if parts.path else ROOT / page
        if not target.exists():
            found.append(f"{link}: no such file")
        elif not target.resolve().is_relative_to(ROOT):
            found.append(f"{link}: leads out of the repository")
        elif parts.fragment and parts.fragment not in anchors(str(target.resolve().relative_to(ROOT))):
            found.append(f"{link}: no such heading")
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file_and_a_heading(page: str) -> None:
    assert faults(page) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_is_named_is_there(page: str) -> None:
    named = {code for code in codes(page) if HOME.fullmatch(code) and SUFFIX.search(code)}
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_the_pages_that_there_are_are_looked_at() -> None:
    assert {"README.md", "CHANGELOG.md", "docs/tutorial.md", "docs/runbook/refused.md", "tests/README.md"} <= set(PAGES)
    assert sum(len(links(page)) for page in PAGES) > 300


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[a](docs/nowhere.md)", "no such file"),
        ("[a](docs/tutorial.md#no-such)", "no such heading"),
        ("[a](#no-such)", "no such heading"),
        ("[a](http://example.com)", "no https address"),
        ("![a](docs/images/none.svg)", "no such file"),
    ],
)
def test_a_bad_link_is_found(text: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = tuple(MarkdownIt("commonmark").parse(text))
    monkeypatch.setattr("tests.unit.documents._tokens", lambda _: tokens)
    assert [fault in found for found in faults("README.md")] == [True]


def test_every_page_of_a_folder_is_in_its_index() -> None:
    for folder in ("decisions", "measurements"):
        index = f"docs/{folder}/index.md"
        listed = {Path(link).name for link in links(index)}
        assert {file.name for file in (ROOT / f"docs/{folder}").iterdir()} - {"index.md"} == listed


@pytest.mark.parametrize(
    ("source", "text", "wanted"),
    [
        ("README.md", "[a](docs/tutorial.md)", "[a](tutorial.md)"),
        ("README.md", "![a](docs/images/overview.svg)", "![a](images/overview.svg)"),
        ("README.md", "[a](LICENSE)", "a"),
        ("docs/how-to/a.md", "[a](../reference/rules.md#x)", "[a](../reference/rules.md#x)"),
        ("docs/how-to/a.md", "[a](../../README.md)", "[a](../index.md)"),
        ("docs/how-to/a.md", "[a](../../examples/consumer)", "a"),
        ("docs/how-to/a.md", "[a](https://example.com/x.md), [b](#c)", "[a](https://example.com/x.md), [b](#c)"),
    ],
)
def test_links_are_rewritten_for_the_site(source: str, text: str, wanted: str) -> None:
    assert for_site(text, source) == wanted


def test_the_site_s_menu_has_every_page() -> None:
    menu = set(re.findall(r"[\w/.-]+\.md", (ROOT / "mkdocs.yml").read_text().split("nav:")[-1]))
    below = {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")}
    assert menu == below | {"index.md", "changelog.md"}
