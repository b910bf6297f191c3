"""docs/tour.md, pasted as a whole into one bash: every block prints what stands below it, on a real broker and a real Spark."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.support.daemon_cluster import ROOT, DaemonCluster

_BLOCK = re.compile(r"^```(bash|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = "-- end of block --"
TIMEOUT_S = 540
"""Patient, for a machine on which everything else is tested, too."""


def blocks() -> Iterator[tuple[str, str]]:
    """Yield the page's commands, each with what they print."""
    page = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    waiting = ""
    for kind, text in _BLOCK.findall(page):
        if kind == "text":
            yield waiting, text
            waiting = ""
        else:
            assert not waiting, "a block of commands says what it prints"
            waiting = text
    assert not waiting


def pattern(printed: str) -> re.Pattern[str]:
    """Return what output has to match: `…` alone in a line is any lines, `…` within one is any text, widths of columns do not count."""
    lines = ["(?:.*\n)*?" if line.strip() == "…" else _line(line) for line in as_piped(printed)]
    return re.compile("".join(lines))


def as_piped(printed: str) -> Iterator[str]:
    """Yield the lines of the page, whose tables are drawn as on a terminal, as a pipe gets them: each row is one line, without drawing."""
    row: list[str] = []
    for line in printed.splitlines():
        cells = [cell.strip() for cell in re.split("[│┃]", line)[1:-1]]
        if cells and not cells[0] and row:
            row = [f"{above}; {below}" if above and below else above or below for above, below in zip(row, cells, strict=True)]
            continue
        if row:
            yield "  ".join(row)
        row = cells
        if not cells and not set(line) & set("━─"):
            yield line
    if row:
        yield "  ".join(row)


def _line(line: str) -> str:
    return ".*".join(re.escape(part) for part in re.split(" ?… ?", _narrow(line))) + "\n"


def _narrow(line: str) -> str:
    return re.sub(r"\s+", " ", line.strip())


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    cluster = DaemonCluster.__new__(DaemonCluster)
    cluster.directory = tmp_path / "tour"
    cluster.close()


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S + 60)
def test_every_block_of_the_tour_prints_what_stands_below_it(directory: Path) -> None:
    expected = list(blocks())
    script = "".join(f"{commands}\necho '{_MARK}'\n" for commands, _ in expected)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("EVENTFLINK_")}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    bash = subprocess.run(
        ["bash"],
        input=script,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=directory,
        env=environment,
        timeout=TIMEOUT_S,
    )
    print(bash.stdout)
    printed = ["".join(f"{_narrow(line)}\n" for line in text.strip().splitlines()) for text in bash.stdout.split(_MARK)]
    for (commands, wanted), found in zip_longest(expected, printed[:-1], fillvalue=("", "")):
        assert pattern(str(wanted)).fullmatch(str(found)), f"{commands}\nprinted\n{found}\nand the page says\n{wanted}"
