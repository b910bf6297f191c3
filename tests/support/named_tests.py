"""Every test of the project: where it stands, and which rules of docs/protocol.md it shows.

They are read from the sources, and nothing is imported or collected. What a marker names stands in it as text.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class NamedTest:
    """One test, whatever its parameters."""

    name: str
    file: str
    """Its file, from the top of the repository."""
    inner: str
    """Its name within the file, with the classes that it is in."""
    rules: tuple[str, ...]
    """What `@pytest.mark.rule("P13")` names, above it or above a class that it is in."""

    @property
    def node(self) -> str:
        """Its node, as pytest calls it."""
        return f"{self.file}::{self.inner}"


@cache
def named_tests() -> tuple[NamedTest, ...]:
    """Return every test, by file and in the order in which they stand there."""
    return tuple(
        test
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for test in _tests(ast.parse(path.read_text(encoding="utf-8")).body, str(path.relative_to(ROOT)))
    )


def showing(rule: str) -> list[NamedTest]:
    """Return the tests that show a rule."""
    return [test for test in named_tests() if rule in test.rules]


def _tests(body: list[ast.stmt], file: str, prefix: str = "", rules: tuple[str, ...] = ()) -> Iterator[NamedTest]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _tests(statement.body, file, f"{prefix}{statement.name}::", (*rules, *_rules(statement)))
        elif isinstance(statement, ast.FunctionDef) and statement.name.startswith("test_"):
            yield NamedTest(statement.name, file, prefix + statement.name, (*rules, *_rules(statement)))


def _rules(decorated: ast.ClassDef | ast.FunctionDef) -> Iterator[str]:
    for mark in decorated.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.rule":
            yield from (ast.literal_eval(rule) for rule in mark.args)
