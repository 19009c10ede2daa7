"""What MkDocs is told beyond mkdocs.yml: README and CHANGELOG are pages, and links are rewritten for the site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from tools.site_links import PAGES, for_site

ROOT = Path(__file__).resolve().parents[1]


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie beside docs/."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=for_site((ROOT / source).read_text(), source)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links of a page of docs/."""
    return markdown if page.file.src_uri in PAGES.values() else for_site(markdown, f"docs/{page.file.src_uri}")
