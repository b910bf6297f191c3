"""The documents say what the code does: what is generated is in step, and what is named exists."""

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.commands import benchmarks
from docs.generate.__main__ import PAGES as GENERATED_PAGES
from docs.generate.page import Page
from eventflink.cli.main import COMMANDS
from eventflink.events import inputs, record_functions
from eventflink.gateways.application import ApplicationGateway
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import RequestRefused
from eventflink.gateways.job_master_gateway import JobMasterGateway
from eventflink.gateways.resource_manager_gateway import ResourceManagerGateway
from eventflink.gateways.task_executor_gateway import TaskExecutorGateway
from eventflink.metrics.metric_catalogue import METRICS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = DOCS / "generated"
PAGES = (*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")))

MOST_COLUMNS = 120
MASTERS_AND_DRILLS = {"ReportSnapshot", "ConfirmSnapshot", "DrillStep"}
"""Commands that masters and drills send, not clients."""

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
# In code only: after a backtick, a prompt, or the indentation of a block.
_COMMAND = re.compile(
    r"(?:`|^\$ |\| |^ {4})eventflink(?: (?:-D|-c|--config|--bootstrap|--cluster-id) \S+| -v)* ([a-z]+(?:-[a-z]+)*)", re.MULTILINE
)
_BENCHMARK = re.compile(r"python -m benchmarks ([a-z]+)")
_PLACE = re.compile(r"`([\w/]+\.py):(\w+)(?:\.(\w+))?`")
_TEST = re.compile(r"`(test_\w+)`")
_PLUGIN = ROOT / "eventflink" / "testing" / "plugin.py"
FIXTURES = set(re.findall(r"^@pytest\.fixture.*\ndef (\w+)", _PLUGIN.read_text(encoding="utf-8"), re.MULTILINE))
_METRIC = re.compile(r"`(eventflink_\w+)`")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def _anchors(page: Path) -> set[str]:
    """Return the anchors that a page's headings have, as Git hosts make them."""
    headings = _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _names(page: Path) -> Iterator[str]:
    """Yield the commands of the program that a page names."""
    yield from (name for name in _COMMAND.findall(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", GENERATED_PAGES, ids=lambda page: page.file_name)
def test_a_generated_page_is_in_step(page: Page) -> None:
    """`python -m docs.generate` writes it again."""
    assert page.path.read_text(encoding="utf-8") == page.render()


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


def test_every_benchmark_is_documented_and_every_one_that_is_named_exists() -> None:
    assert {row[0].strip("`") for row in _table("developing.md", "Measuring")} == set(benchmarks.commands)
    named = {name for page in PAGES for name in _BENCHMARK.findall(page.read_text(encoding="utf-8"))}
    assert named <= set(benchmarks.commands)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_place_in_the_code_exists(page: Path) -> None:
    """A place is written `room/module.py:name`, or `room/module.py:Class.method`; the room is one of the package, or beside it."""
    missing = []
    for path, name, method in _PLACE.findall(page.read_text(encoding="utf-8")):
        files = [file for file in (ROOT / "eventflink" / path, ROOT / path) if file.is_file()]
        source = files[0].read_text(encoding="utf-8") if files else ""
        wanted = [name, method] if method else [name]
        if not all(re.search(rf"^\s*(?:async )?(?:def|class) {part}\b|^\s*{part}\b.* = ", source, re.MULTILINE) for part in wanted):
            missing.append(f"{path}:{name}{'.' + method if method else ''}")
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_is_named_exists(page: Path) -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    names = {*re.findall(r"def (test_\w+)", sources), *(path.stem for path in (ROOT / "tests").rglob("test_*.py"))}
    assert not {name for name in _TEST.findall(page.read_text(encoding="utf-8")) if name not in names}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_metric_fixture_and_option_of_pytest_that_is_named_exists(page: Path) -> None:
    names = {metric.name for metric in METRICS} | set(_METRIC.findall(_PLUGIN.read_text(encoding="utf-8").replace('"', "`"))) | FIXTURES
    assert not {name for name in _METRIC.findall(page.read_text(encoding="utf-8")) if name not in names}


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent != GENERATED], ids=lambda page: page.name)
def test_no_line_of_prose_is_longer_than_120_columns(page: Path) -> None:
    """Tables, code and pages that a program writes are as wide as they are."""
    prose = _FENCE.sub("", page.read_text(encoding="utf-8")).splitlines()
    assert [line for line in prose if len(line) > MOST_COLUMNS and not line.startswith(("|", "    "))] == []


def test_every_fixture_of_the_pytest_plugin_is_documented() -> None:
    assert {row[0].strip("`") for row in _table("testing.md", "Fixtures")[: len(FIXTURES)]} == FIXTURES


def test_every_event_class_is_in_the_catalogue_with_its_fields() -> None:
    page = (GENERATED / "events.md").read_text(encoding="utf-8")
    sections = {heading.splitlines()[0]: heading for heading in page.split("\n### ")[1:]}
    for cls in record_functions.record_classes():
        assert cls.__name__ in sections
        assert [f.name for f in dataclasses.fields(cls) if f"| `{f.name}` |" not in sections[cls.__name__]] == []


def _table(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table under a heading, without its head."""
    section = (DOCS / page).read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def test_the_gateways_page_has_every_method_and_no_other() -> None:
    documented: dict[str, set[str]] = {}
    gateway = ""
    for first, methods, *_ in _table("gateways.md", "Methods"):
        gateway = first or gateway
        documented.setdefault(gateway, set()).update(re.findall(r"`(\w+)`", methods))
    of_connections = {"run", "close"}
    classes = (DispatcherGateway, ResourceManagerGateway, JobMasterGateway, TaskExecutorGateway, ApplicationGateway)
    assert documented == {
        cls.__name__.removesuffix("Gateway"): {
            name for name, _ in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_") and name not in of_connections
        }
        for cls in classes
    }


def test_the_gateways_page_says_which_commands_have_which_fencing_token() -> None:
    documented = {}
    for fields, *_ in _table("gateways.md", "Fencing tokens"):
        token, *commands = re.findall(r"`(\w+)`", fields.split(" (")[0])
        documented[token] = set(commands)
    classes = [cls for cls in vars(inputs).values() if inspect.isclass(cls) and dataclasses.is_dataclass(cls)]
    # Of base classes nobody sends one.
    sent = [cls for cls in classes if not any(issubclass(other, cls) for other in classes if other is not cls)]
    fields_of = {cls.__name__: {field.name for field in dataclasses.fields(cls)} for cls in sent}
    requests = {name: fields for name, fields in fields_of.items() if {"request_id", "reply_partition"} <= fields}
    assert documented == {token: {name for name, fields in requests.items() if token in fields} for token in ("leader_id", "job_master_id")}


def test_the_gateways_page_names_every_refusal_that_has_a_type() -> None:
    named = {name for row in _table("gateways.md", "Errors") for name in re.findall(r"`(\w+)`", row[0])}
    assert {cls.__name__ for cls in RequestRefused.__subclasses__()} <= named


def test_every_row_of_the_master_that_works_names_the_test_that_shows_it() -> None:
    rows = [line for line in (DOCS / "master-api.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    works = [row for row in rows if row.split("|")[2].strip().startswith("works")]
    assert len(works) > 30
    assert not [row for row in works if not _TEST.search(row)]


def test_every_command_and_every_refusal_that_a_client_can_meet_is_in_submitting() -> None:
    """A page for other languages has to say what a client of this one finds in its types."""
    page = (DOCS / "submitting.md").read_text(encoding="utf-8")
    commands = inputs.COMMANDS.keys() - MASTERS_AND_DRILLS
    assert not {command for command in commands if f'{{"type": "{command}"' not in page}
    assert not {refusal.__name__ for refusal in RequestRefused.__subclasses__() if f"| `{refusal.__name__}` |" not in page}


_CODE = re.compile(r"(?:[A-Z][a-z]+){2,}")


def _codes_in(path: Path) -> set[str]:
    """Return the codes that a module of the master refuses with: what a refusal is made with, and what is returned with a message."""
    codes: list[ast.expr] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(func=ast.Name("rejected"), args=[_, code, *_]):
                codes.append(code)
            case ast.Return(value=ast.Tuple(elts=[code, ast.JoinedStr() | ast.Name()])):
                codes.append(code)
            case (
                ast.Assign(targets=[ast.Name("code")], value=code)
                | ast.Assign(targets=[ast.Tuple(elts=[ast.Name("code"), *_])], value=ast.Tuple(elts=[code, *_]))
            ):
                codes.append(code)
    constants = {each.value for code in codes for each in ast.walk(code) if isinstance(each, ast.Constant)}
    return {each for each in constants if isinstance(each, str) and _CODE.fullmatch(each)}


def test_every_code_that_the_master_refuses_with_is_in_the_table_of_submitting() -> None:
    codes = {code for path in (ROOT / "eventflink" / "master").glob("*.py") for code in _codes_in(path)}
    assert len(codes) > 40
    documented = {code for row in _table("submitting.md", "Replies") for code in re.findall(r"`(\w+)`", row[0])}
    assert not codes - documented
