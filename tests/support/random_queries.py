"""Random batch jobs, each as a graph of SQL vertices and as the one query that it is: what both come to has to be equal.

A graph is made of a seed. Its sources have keys of types that SQL compares with one another, with nulls, keys that stand often, zeros of
both signs and NaN; its other vertices join, group, unite, filter and make distinct, over edges of each kind and with any parallelism.
Every statement reads its inputs by the names of their writers, so the same text is a vertex and a part of a `WITH`.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eventflink.model.statuses import ShipStrategy

_NUMBERS: Final = ("0", "0", "0", "1", "2", "3", "-1", "100", "NULL")
_FRACTIONS: Final = ("0.0D", "-0.0D", "1D", "1.5D", "0.1D", "double('NaN')", "double('-Infinity')", "NULL")
_DAYS: Final = ("'1970-01-01'", "'2024-03-31'", "'0001-01-01'", "'9999-12-31'", "NULL")
_TEXTS: Final = ("'a'", "'A'", "'ä'", "''", "' a'", "NULL")
_FAMILIES: Final = (
    (("TINYINT", "INT", "BIGINT", "DECIMAL(10,2)", "DECIMAL(12,4)", "DECIMAL(38,18)"), _NUMBERS),
    (("FLOAT", "DOUBLE"), _FRACTIONS),
    (("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"), _DAYS),
    (("STRING",), _TEXTS),
    (("BOOLEAN",), ("true", "false", "NULL")),
)
"""Types of keys that come to one without loss, with values that are cast to them."""

_JOINS: Final = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
_HALF_JOINS: Final = ("LEFT SEMI JOIN", "LEFT ANTI JOIN")
_MAX_ROWS: Final = 40
_MAX_PARALLELISM: Final = 3
_KEYS: Final = ("k", "j")


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """An edge: whose rows come how."""

    writer: str
    ship: ShipStrategy
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertex:
    """A statement that so many subtasks run; its rows have the columns k, j and v."""

    name: str
    sql: str
    parallelism: int
    max_parallelism: int
    inputs: tuple[Input, ...] = ()


@dataclass(frozen=True, slots=True)
class RandomQuery:
    """A graph in the order in which its vertices can run; the rows of the last one count."""

    vertices: tuple[Vertex, ...]

    def as_one_query(self) -> str:
        """Return the statement without subtasks, edges and division."""
        parts = ", ".join(f"{v.name} AS ({v.sql})" for v in self.vertices)
        return f"WITH {parts} SELECT * FROM {self.vertices[-1].name}"

    def __str__(self) -> str:
        """Return the graph as it is read best."""
        lines = []
        for v in self.vertices:
            edges = ", ".join(f"{e.writer} by {e.ship.value}{list(e.keys) or ''}" for e in v.inputs)
            lines.append(f"{v.name}, {v.parallelism} subtasks, {v.max_parallelism} key groups, <- {edges or 'nothing'}: {v.sql}")
        return "\n".join(lines)


def random_query(seed: int) -> RandomQuery:
    """Return the graph of a seed."""
    chance = random.Random(seed)
    families = chance.choice(_FAMILIES), chance.choice(_FAMILIES)
    vertices = [_source(chance, f"s{number}", families) for number in range(chance.randint(1, 3))]
    unread = [v.name for v in vertices]
    for number in range(chance.randint(1, 3)):
        vertices.append(_operator(chance, f"o{number}", vertices, unread))
        unread = [name for name in unread if name not in {e.writer for e in vertices[-1].inputs}] + [vertices[-1].name]
    while len(unread) > 1:
        left, right, *unread = unread
        vertices.append(_join(chance, f"o{len(vertices)}", left, right))
        unread.append(vertices[-1].name)
    return RandomQuery(tuple(vertices))


def _source(chance: random.Random, name: str, families: Sequence[tuple[Sequence[str], Sequence[str]]]) -> Vertex:
    """Return a source, whose subtasks divide its rows by their numbers."""
    types = [chance.choice(kinds) for kinds, _ in families]
    rows = [[chance.choice(values) for _, values in families] for _ in range(chance.randint(0, _MAX_ROWS))]
    listed = ", ".join(f"({number}, {', '.join(row)})" for number, row in enumerate(rows)) or "(NULL, NULL, NULL)"
    return _vertex(
        chance,
        name,
        f"SELECT CAST(a AS {types[0]}) AS k, CAST(b AS {types[1]}) AS j, CAST(n AS BIGINT) AS v FROM VALUES {listed} AS t(n, a, b) "
        "WHERE pmod(n, :parallelism) = :subtask_index",
    )


def _operator(chance: random.Random, name: str, vertices: Sequence[Vertex], unread: Sequence[str]) -> Vertex:
    """Return a vertex that reads one that nobody reads yet, and perhaps any other."""
    first = chance.choice(unread)
    others = [v.name for v in vertices if v.name != first]
    if others and chance.random() < 0.6:
        return _of_two(chance, name, first, chance.choice(others))
    return _of_one(chance, name, next(v for v in vertices if v.name == first))


def _of_two(chance: random.Random, name: str, first: str, other: str) -> Vertex:
    kind = chance.choice(("join", "join", "half join", "broadcast join", "union"))
    if kind == "join":
        return _join(chance, name, first, other)
    if kind == "half join":
        return _joined(chance, name, first, other, chance.choice(_HALF_JOINS))
    if kind == "broadcast join":
        return _broadcast_join(chance, name, first, other)
    edges = tuple(Input(writer=each, ship=ShipStrategy.REBALANCE) for each in (first, other))
    return _vertex(chance, name, f"SELECT k, j, v FROM {first} UNION ALL SELECT k, j, v + 1 FROM {other}", edges)


def _of_one(chance: random.Random, name: str, writer: Vertex) -> Vertex:
    kind = chance.choice(("group", "group", "distinct", "filter"))
    if kind == "filter":
        ship = chance.choice((ShipStrategy.FORWARD, ShipStrategy.REBALANCE))
        parallelism = writer.parallelism if ship is ShipStrategy.FORWARD else 0
        sql = f"SELECT k, j, v FROM {writer.name} WHERE pmod(v, 5) <> 0 OR k IS NULL"
        return _vertex(chance, name, sql, (Input(writer=writer.name, ship=ship),), parallelism)
    keys = _some_keys(chance)
    edges = (Input(writer=writer.name, ship=ShipStrategy.HASH, keys=keys),)
    if kind == "distinct":
        return _vertex(chance, name, f"SELECT DISTINCT k, j, pmod(v, 3) AS v FROM {writer.name}", edges)
    columns = ", ".join(key if key in keys else f"max({key}) AS {key}" for key in _KEYS)
    sql = f"SELECT {columns}, sum(v) * 1000 + count(*) AS v FROM {writer.name} GROUP BY {', '.join(keys)}"
    return _vertex(chance, name, sql, edges)


def _some_keys(chance: random.Random) -> tuple[str, ...]:
    return chance.choice((("k",), ("j",), ("k", "j"), ("j", "k")))


def _join(chance: random.Random, name: str, left: str, right: str) -> Vertex:
    return _joined(chance, name, left, right, chance.choice(_JOINS))


def _joined(chance: random.Random, name: str, left: str, right: str, join: str) -> Vertex:
    """Return a join by hash edges; what stands in several rows of both sides is grouped first, so that joins of joins stay small."""
    keys = _some_keys(chance)
    condition = " AND ".join(f"a.{key} = b.{key}" for key in keys)
    few = f"(SELECT k, j, max(v) AS v, count(*) AS n FROM {right} GROUP BY k, j)"
    if join in _HALF_JOINS:
        sql = f"SELECT a.k, a.j, a.v FROM {left} a {join} {right} b ON {condition}"
    else:
        sql = (
            "SELECT coalesce(a.k, b.k) AS k, coalesce(a.j, b.j) AS j, coalesce(a.v, 0) + coalesce(b.v, -7) * 10 + coalesce(b.n, 0) AS v "
            f"FROM {left} a {join} {few} b ON {condition}"
        )
    edges = tuple(Input(writer=each, ship=ShipStrategy.HASH, keys=keys) for each in (left, right))
    return _vertex(chance, name, sql, edges)


def _broadcast_join(chance: random.Random, name: str, left: str, right: str) -> Vertex:
    """Return a join whose right side every subtask has whole."""
    join = chance.choice(("JOIN", "LEFT JOIN"))
    few = f"(SELECT k, max(j) AS j, max(v) AS v FROM {right} GROUP BY k)"
    sql = f"SELECT a.k, b.j, a.v + coalesce(b.v, -7) AS v FROM {left} a {join} {few} b ON a.k = b.k"
    edges = Input(writer=left, ship=ShipStrategy.REBALANCE), Input(writer=right, ship=ShipStrategy.BROADCAST)
    return _vertex(chance, name, sql, edges)


def _vertex(chance: random.Random, name: str, sql: str, inputs: tuple[Input, ...] = (), parallelism: int = 0) -> Vertex:
    return Vertex(
        name=name,
        sql=sql,
        parallelism=parallelism or chance.randint(1, _MAX_PARALLELISM),
        max_parallelism=chance.choice((_MAX_PARALLELISM, 7, 128)),
        inputs=inputs,
    )
