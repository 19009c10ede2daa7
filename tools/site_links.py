"""Links of pages as the site needs them, where they are written for GitHub. Pure."""

from __future__ import annotations

import posixpath
import re

PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}
"""Files beside docs/ that are pages of the site."""
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def for_site(markdown: str, source: str) -> str:
    """The page with its links for the site; `source` is its file, from the repository's root.

    A link to a file of the repository that is no page (an example, a source) leads nowhere on the site: its words stay.
    """
    page = PAGES.get(source, source.removeprefix("docs/"))
    return LINK.sub(lambda found: _rewritten(found, source, page), markdown)


def _rewritten(found: re.Match[str], source: str, page: str) -> str:
    picture, words, target, anchor = found.groups()
    if not target or ":" in target:
        return found.group()
    file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    there = PAGES.get(file) or (file.removeprefix("docs/") if file.startswith("docs/") else None)
    if there is None:
        return words
    address = posixpath.relpath(there, posixpath.dirname(page) or ".")
    return f"{picture}[{words}]({address}{anchor or ''})"
