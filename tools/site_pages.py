"""What MkDocs is told beyond mkdocs.yml: README is the site's home, and links out of docs/ lose their address.

A link to a file of the repository that is no page (an example, a source) is right on GitHub and leads nowhere on the
site; its words stay. tests/unit/test_docs_links.py looks at all of them.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}
"""Files beside docs/ that are pages of the site."""
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie beside docs/."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=for_site((ROOT / source).read_text(), source)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links of a page of docs/ as the site needs them."""
    return markdown if page.file.src_uri in PAGES.values() else for_site(markdown, f"docs/{page.file.src_uri}")


def for_site(markdown: str, source: str) -> str:
    """`source` is the page's file, from the repository's root."""
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
