"""The documents say what the code does: what is generated is in step, and what is named exists."""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventflink.cli.main import COMMANDS
from eventflink.events import catalogue, codec
from eventflink.metrics import reference
from eventflink.model import configuration_reference, diagrams

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.glob("*.md")))

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
# In code only: after a backtick, a prompt, or the indentation of a block.
_COMMAND = re.compile(
    r"(?:`|^\$ |\| |^ {4})eventflink(?: (?:-D|-c|--config|--bootstrap|--cluster-id) \S+| -v)* ([a-z]+(?:-[a-z]+)*)", re.MULTILINE
)
_PLACE = re.compile(r"`([\w/]+\.py):(\w+)(?:\.(\w+))?`")
_TEST = re.compile(r"`(test_\w+)`")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def _anchors(page: Path) -> set[str]:
    """Return the anchors that a page's headings have, as Git hosts make them."""
    headings = _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _names(page: Path) -> Iterator[str]:
    """Yield the commands of the program that a page names."""
    yield from (name for name in _COMMAND.findall(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("page", "rendered"),
    [
        ("configuration.md", configuration_reference.render),
        ("events.md", catalogue.render),
        ("metrics.md", reference.render),
        ("state-machines.md", diagrams.page),
    ],
)
def test_a_generated_page_is_in_step(page: str, rendered: object) -> None:
    """Whoever changes the source writes the page again: its first lines say how."""
    assert callable(rendered)
    assert (DOCS / page).read_text(encoding="utf-8") == rendered()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_exists(page: Path) -> None:
    assert not {name for name in _names(page) if name not in COMMANDS}


def test_every_command_is_documented() -> None:
    assert set(COMMANDS) <= {name for page in PAGES for name in _names(page)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_place_in_the_code_exists(page: Path) -> None:
    """A place is written `room/module.py:name`, or `room/module.py:Class.method`."""
    missing = []
    for path, name, method in _PLACE.findall(page.read_text(encoding="utf-8")):
        file = ROOT / "eventflink" / path
        source = file.read_text(encoding="utf-8") if file.is_file() else ""
        wanted = [name, method] if method else [name]
        if not all(re.search(rf"^\s*(?:async )?(?:def|class) {part}\b|^\s*{part}\b.* = ", source, re.MULTILINE) for part in wanted):
            missing.append(f"{path}:{name}{'.' + method if method else ''}")
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_is_named_exists(page: Path) -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    names = {*re.findall(r"def (test_\w+)", sources), *(path.stem for path in (ROOT / "tests").rglob("test_*.py"))}
    assert not {name for name in _TEST.findall(page.read_text(encoding="utf-8")) if name not in names}


def test_every_event_class_is_in_the_catalogue_with_its_fields() -> None:
    page = (DOCS / "events.md").read_text(encoding="utf-8")
    sections = {heading.splitlines()[0]: heading for heading in page.split("\n### ")[1:]}
    for cls in codec.record_classes():
        assert cls.__name__ in sections
        assert [f.name for f in dataclasses.fields(cls) if f"| `{f.name}` |" not in sections[cls.__name__]] == []


def test_every_row_of_the_master_that_works_names_the_test_that_shows_it() -> None:
    rows = [line for line in (DOCS / "master-api.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    works = [row for row in rows if row.split("|")[2].strip().startswith("works")]
    assert len(works) > 30
    assert not [row for row in works if not _TEST.search(row)]
