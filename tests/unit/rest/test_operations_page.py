"""The page of operations has all that Flink describes and all that this application serves beside them, each with a test."""

import re
from pathlib import Path

from tests.support.flink_operations import OPERATIONS
from tests.unit.rest.test_generated_requests import new_application

PAGE = Path(__file__).parents[3] / "docs" / "flink-operations.md"
_ROW = re.compile(r"^\| `(?P<operation>[A-Z]+ \S+)` \| (?P<state>[^|]+) \| `test_\w+` \|", re.MULTILINE)
STATES = {"as Flink", "in part", "empty", "refused"}


def test_the_page_of_operations_has_each_of_flinks_and_each_that_is_served_beside_them() -> None:
    rows = [(row["operation"], row["state"]) for row in _ROW.finditer(PAGE.read_text(encoding="utf-8"))]
    operations = [operation for operation, _ in rows]
    assert tuple(operations[: len(OPERATIONS)]) == OPERATIONS
    assert len(OPERATIONS) == 78
    paths = new_application().openapi()["paths"]
    served = {
        f"{method.upper()} {path.removeprefix('/v1')}" for path, all_of in paths.items() if path.startswith("/v1/") for method in all_of
    }
    assert sorted(operations) == sorted(served)
    assert {state for _, state in rows} == STATES
