"""One name, one thing: a class that other modules may import has a name of its own in the whole package."""

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "eventflink"


def twice(sources: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the names that public top-level classes of several files have, with these files."""
    files = defaultdict(list)
    for file, source in sources:
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(file)
    return {name: where for name, where in files.items() if len(where) > 1}


def test_a_name_that_stands_twice_is_found_and_what_is_private_may() -> None:
    sources = [("a.py", "class A: pass\nclass _B: pass"), ("b.py", "class A:\n  class C: pass\nclass _B: pass"), ("c.py", "class C: pass")]
    assert twice(sources) == {"A": ["a.py", "b.py"]}


def test_no_two_classes_of_the_package_have_one_name() -> None:
    found = twice((str(file.relative_to(PACKAGE)), file.read_text(encoding="utf-8")) for file in sorted(PACKAGE.rglob("*.py")))
    assert found == {}
