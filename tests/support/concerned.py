"""Which tests of `make soak` a change concerns: `python -m tests.support.concerned [BASE]` prints their files, one a line;
`--all` in place of BASE prints all of them.

A test says with its mark which rooms it is about, or which files (`docs/developing.md`). A change concerns it if it touches one of them, or
anything that one of them imports, however far; a change of what decides or is written concerns all. Without a base it is the newest commit
that is older than six hours: the work of a session is landed as one.
"""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import grimp

ROOT: Final = Path(__file__).parents[2]
_CONCERN_ALL: Final = (
    "eventflink/events/",
    "eventflink/master/",
    "eventflink/leadership/",
    "eventflink/log/",
    "docs/generate/schemas.py",
    "schemas/",
    "pyproject.toml",
    "tests/conftest.py",
    "tests/support/concerned.py",
)


def main(arguments: list[str]) -> None:
    """Print the files of the tests that a change concerns."""
    if arguments == ["--all"]:
        print("\n".join(file for file, _ in soak_files()))
        return
    base = arguments[0] if arguments else _git("rev-list", "-1", "--before=6 hours ago", "HEAD")
    changed = _git("diff", "--name-only", base, "HEAD").splitlines() if base else list(_CONCERN_ALL)
    print("\n".join(concerned(changed)))


def concerned(changed: Iterable[str]) -> list[str]:
    """Return the files with tests marked soak that a change of these files concerns, as paths from the top of the repository."""
    changed = list(changed)
    rooms = dict(soak_files())
    if any(path.startswith(_CONCERN_ALL) for path in changed):
        return sorted(rooms)
    graph = grimp.build_graph("eventflink", "benchmarks", "tests")
    touched: set[str] = set()
    for path in changed:
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if module in graph.modules:
            touched |= {module, *graph.find_downstream_modules(module)}
    return sorted(
        file
        for file, about in rooms.items()
        if not about.isdisjoint(changed) or file in changed or any(f"{m}.".startswith(f"{r}.") for m in touched for r in about)
    )


def soak_files() -> Iterator[tuple[str, set[str]]]:
    """Yield each file that has tests marked soak, with the rooms that its marks name."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.soak" not in text:
            continue
        marks = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.soak")]
        if marks:
            yield str(path.relative_to(ROOT)), {ast.literal_eval(room) for mark in marks for room in mark.args}


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main(sys.argv[1:])
