"""Hooks of MkDocs (`mkdocs.yml`): README.md is the home page, and links that leave docs/ are named instead of followed.

On a Git host the pages link to files of the repository. The site has none of these, so it shows their paths.
"""

import posixpath
import re
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files

_ROOT: Final = Path(__file__).parents[2]
_LINK: Final = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
_IMAGE: Final = re.compile(r"(!\[[^\]]*\]\()docs/")


def on_files(files: Files, config: Any) -> Files:
    """Add the home page."""
    readme = (_ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=_IMAGE.sub(r"\1", readme.replace("](docs/", "]("))))
    return files


def on_page_markdown(markdown: str, page: Any, **_others: Any) -> str:
    """Return the text of a page with each link that leaves docs/ replaced by its words and the path in the repository."""
    folder = posixpath.dirname(page.file.src_uri)
    is_home = page.file.src_uri == "index.md"

    def show(link: re.Match[str]) -> str:
        words, target = link.groups()
        if "://" in target or target.startswith("#"):
            return link[0]
        place = posixpath.normpath(posixpath.join("" if is_home else posixpath.join("docs", folder), target.partition("#")[0]))
        in_docs = not place.startswith("..") and ((_ROOT / "docs" / place).exists() if is_home else place.startswith("docs/"))
        path = words.strip("`") if words.strip("`") == place else f"{words} (`{place}`)"
        return link[0] if in_docs else path

    return _LINK.sub(show, markdown)
