"""Pauses between tries, and that the package has one way to count them."""

import ast
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventflink.model.backoff import Backoff

PACKAGE = Path(__file__).parents[2] / "eventflink"
BY_HAND = {"master/workers.py"}
"""Its pause is a field of an event and of the state: a rule of the master, and no object."""


def test_pauses_double_up_to_a_bound_and_begin_anew() -> None:
    pauses = Backoff(0.1, 1.0)
    assert [pauses.next() for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    pauses.reset()
    assert pauses.next() == 0.1


def test_milliseconds_stay_whole() -> None:
    pauses = Backoff(200, 1_000)
    assert [repr(pauses.next()) for _ in range(4)] == ["200", "400", "800", "1000"]


def test_the_bound_holds_for_the_first_pause() -> None:
    assert Backoff(5, 3).next() == 3


@pytest.mark.parametrize(("fraction", "pauses"), [(0.0, [1.0, 2.0, 4.0]), (0.5, [0.75, 1.5, 3.0]), (1.0, [0.5, 1.0, 2.0])])
def test_of_each_pause_a_random_part_is_left_out_and_the_next_is_no_shorter_for_it(fraction: float, pauses: list[float]) -> None:
    backoff = Backoff(1.0, 8.0)
    assert [backoff.next_jittered(fraction) for _ in range(3)] == pauses


def test_jitter_stays_within_its_bounds() -> None:
    rng = random.Random(1)
    pauses = {Backoff(1.0, 8.0).next_jittered(rng.random()) for _ in range(100)}
    assert len(pauses) > 50
    assert all(0.5 <= pause <= 1.0 for pause in pauses)


def doubled_by_hand(source: str) -> Iterator[int]:
    """Yield the lines of calls of `min` that bound twice something, on whichever side."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "min":
            for argument in node.args:
                if isinstance(argument, ast.BinOp) and isinstance(argument.op, ast.Mult):
                    sides = (argument.left, argument.right)
                    if any(isinstance(side, ast.Constant) and side.value == 2 for side in sides):
                        yield node.lineno


def test_a_pause_that_is_doubled_by_hand_is_found() -> None:
    assert list(doubled_by_hand("a = 1\nb = min(2 * b, MOST)\nc = min(MOST, self._c * 2)\nd = min(b, 2)")) == [2, 3]


def test_nobody_doubles_a_pause_by_hand() -> None:
    by_hand = [
        f"{name}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if (name := path.relative_to(PACKAGE).as_posix()) not in BY_HAND
        for line in doubled_by_hand(path.read_text(encoding="utf-8"))
    ]
    assert by_hand == []
