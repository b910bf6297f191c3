"""Makes inputs: from recorded ones by changes of their bytes, of their fields or of both, and from schemas with odd values.

Recorded are the records of simulated runs, of every topic, and of a cluster in which everything is under way. The values of their fields
are collected by the names of the fields: so ids of jobs, attempts and instances come again where such ids belong.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any, Final

from hypothesis import strategies as st

from eventflink.events.schemas import Schema, registry_of
from eventflink.events.topics import SPECIFICATIONS
from tests.fuzz.corpus_files import tree_of, value_of
from tests.simulation import run
from tests.simulation.cluster import Cluster
from tests.simulation.faults import Faults
from tests.simulation.variations import Resources
from tests.support.liars import ODD_INTS, ODD_LONGS, ODD_TEXTS

SIMULATED_SEEDS: Final = (1, 3, 12)
"""Runs whose records are changed: with streams, full disks, forged deaths and adaptive jobs among them; the first has snapshots."""

MOST_RECORDS: Final = 400
"""Of each topic; more of them are alike."""

HUGE_NUMBER: Final = b"\xff" * 9 + b"\x7f"
"""Of nine bytes and more, where Avro writes a length, a count or a number."""

Edit = tuple[int, int, int]
"""What is done, where, and with what: numbers, which are taken modulo how many there are."""

_EDITS: Final = st.tuples(st.integers(0, 8), st.integers(0, 1 << 16), st.integers(0, 1 << 16))
_DOUBLES: Final = (0.0, -1.0, 1e308, float("nan"), float("inf"))


@cache
def recorded() -> Mapping[str, tuple[tuple[bytes | None, bytes], ...]]:
    """Return keys and values of the records of simulated runs, by topic."""
    found: dict[str, list[tuple[bytes | None, bytes]]] = {str(topic): [] for topic in SPECIFICATIONS}
    for seed in SIMULATED_SEEDS:
        rng = Random(seed)
        drawn = run.draw_settings(rng, seed)
        cluster = Cluster(drawn, rng, Resources(seed, drawn.task_executors))
        run._run(cluster, Faults(cluster, rng))
        for topic in SPECIFICATIONS:
            for number in range(cluster.broker.count_partitions(topic)):
                found[topic] += [(r.key, r.value) for r in cluster.broker.partition(topic, number).records if r.value is not None]
    return {topic: tuple(_thinned(list(dict.fromkeys(records)))) for topic, records in found.items()}


def _thinned(records: Sequence[tuple[bytes | None, bytes]]) -> Iterator[tuple[bytes | None, bytes]]:
    step = -(-len(records) // MOST_RECORDS) or 1
    yield from records[::step]


# -- bytes -------------------------------------------------------------------------------------------------------------


def mutated(values: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Return some of these values with changed bytes."""
    chosen = st.sampled_from(values)
    return st.builds(change_bytes, chosen, chosen, st.lists(_EDITS, min_size=1, max_size=4))


def change_bytes(value: bytes, other: bytes, edits: Sequence[Edit]) -> bytes:
    """Flip, set, insert, remove, repeat, cut, splice and swap bytes."""
    made = bytearray(value)
    for kind, where, what in edits:
        size = len(made)
        at = where % (size + 1)
        end = min(size, at + 1 + what % 64)
        match kind:
            case 0 if at < size:
                made[at] ^= 1 << what % 8
            case 1 if at < size:
                made[at] = what % 256
            case 2:
                made[at:at] = what.to_bytes(4, "big")[-(1 + what % 4) :]
            case 3:
                del made[at:end]
            case 4:
                made[at:at] = made[at:end] * (1 + what % 7)
            case 5:
                del made[at:]
            case 6:
                made[at:] = other[what % (len(other) + 1) :]
            case 7:
                made[at:at] = HUGE_NUMBER
            case _:
                made[at:end] = bytes(reversed(made[at:end]))
    return bytes(made)


# -- trees -------------------------------------------------------------------------------------------------------------

Choose = Callable[[str, Any, int], Any]
"""Returns another value for a leaf: by the name of its field, what is there, and a number that chooses."""


def change_tree(tree: Any, edits: Sequence[Edit], choose: Choose) -> Any:
    """Return a tree of mappings, lists, pairs and leaves in which leaves are replaced and swapped, and lists repeated and emptied."""
    for kind, where, what in edits:
        places = list(_places(tree, ()))
        if not places:
            return tree
        path = places[where % len(places)]
        value = _at(tree, path)
        name = next((step for step in reversed(path) if isinstance(step, str)), "")
        if isinstance(value, list):
            changed: Any = value * (2 + what % 3) if kind % 2 else value[: what % (len(value) + 1)]
        elif kind >= 6:
            changed = _at(tree, places[what % len(places)])
        else:
            changed = choose(name, value, what)
        tree = _replaced(tree, path, changed)
    return tree


def _places(tree: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of lists and leaves."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _places(value, (*path, key))
    elif isinstance(tree, tuple):  # A branch of a union: its name, and its record.
        yield from _places(tree[1], (*path, 1))
    elif isinstance(tree, list):
        yield path
        for number, value in enumerate(tree[:50]):
            yield from _places(value, (*path, number))
    else:
        yield path


def _at(tree: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        tree = tree[step]
    return tree


def _replaced(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    made = _replaced(tree[step], rest, value)
    if isinstance(tree, dict):
        return {**tree, step: made}
    pieces = list(tree)
    pieces[step] = made
    return tuple(pieces) if isinstance(tree, tuple) else pieces


# -- Avro --------------------------------------------------------------------------------------------------------------


class Avro:
    """The records of one envelope, made from recorded ones and from its schema."""

    def __init__(self, envelope: str, values: Sequence[bytes]) -> None:
        """Take recorded records; those that are not of this envelope are used for their bytes alone."""
        registry = registry_of(envelope)
        self._envelope = envelope
        self._schema = registry.by_fingerprint[registry.current_fingerprint]
        self._values = values
        self._trees = [tree for value in values if (tree := self._tree_of(value)) is not None]
        self._pools: dict[str, list[Any]] = {}
        for tree in self._trees:
            for path in _places(tree, ()):
                name = next((step for step in reversed(path) if isinstance(step, str)), "")
                value, pool = _at(tree, path), self._pools.setdefault(name, [])
                if not isinstance(value, list) and len(pool) < MOST_RECORDS and value not in pool:
                    pool.append(value)

    def _tree_of(self, value: bytes) -> Any:
        tree = tree_of(self._envelope, value)
        return tree if tree is not None and self._encode(tree) else None

    def records(self) -> st.SearchStrategy[bytes]:
        """Return recorded ones as they were, with changed bytes, with changed fields, both, and ones that are all new."""
        edits = st.lists(_EDITS, min_size=1, max_size=5)
        changed = st.builds(self._changed, st.sampled_from(self._trees), edits)
        made = self._made(self._schema, "").map(self._encode)
        return st.one_of(
            mutated(self._values),
            changed,
            changed,
            made,
            st.sampled_from(self._values),
            st.builds(change_bytes, changed, st.sampled_from(self._values), st.lists(_EDITS, min_size=1, max_size=2)),
        )

    def _changed(self, tree: Any, edits: Sequence[Edit]) -> bytes:
        return self._encode(change_tree(tree, edits, self._choose)) or self._encode(tree)

    def _choose(self, name: str, value: Any, what: int) -> Any:
        pool = self._pools.get(name, [])
        odd: Sequence[Any] = ODD_TEXTS if isinstance(value, str) else (*ODD_LONGS, *ODD_INTS)
        if isinstance(value, bool):
            return not value
        if isinstance(value, float):
            return _DOUBLES[what % len(_DOUBLES)]
        if isinstance(value, bytes):
            return change_bytes(value, value, [(what % 9, what, what)])
        return pool[what // 2 % len(pool)] if what % 2 and pool else odd[what // 2 % len(odd)]

    def _encode(self, tree: Any) -> bytes:
        return value_of(self._envelope, tree)

    def _made(self, schema: Schema, name: str) -> st.SearchStrategy[Any]:
        """Return values of a schema, by the name of their field."""
        if isinstance(schema, list):
            return st.one_of([self._branch(each, name) for each in schema])
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind == "record":
            return st.fixed_dictionaries({each["name"]: self._made(each["type"], each["name"]) for each in schema["fields"]})
        if kind == "array":
            return st.lists(self._made(schema["items"], name), max_size=3)
        if kind == "enum":
            return st.sampled_from(schema["symbols"])
        return self._leaf(kind, name) if isinstance(kind, str) else self._made(kind, name)

    def _leaf(self, kind: str, name: str) -> st.SearchStrategy[Any]:
        pool = self._pools.get(name, [])
        texts = [value for value in pool if isinstance(value, str)] or ["x"]
        leaves: dict[str, st.SearchStrategy[Any]] = {
            "string": st.one_of(st.sampled_from(texts), st.sampled_from(texts), st.sampled_from(ODD_TEXTS), st.text(max_size=8)),
            "int": st.one_of(st.sampled_from(_ints(pool, 31)), st.sampled_from(ODD_INTS)),
            "long": st.one_of(st.sampled_from(_ints(pool, 63)), st.sampled_from(ODD_LONGS)),
            "bytes": st.binary(max_size=40),
            "boolean": st.booleans(),
            "double": st.sampled_from(_DOUBLES),
            "null": st.none(),
        }
        return leaves[kind]

    def _branch(self, schema: Schema, name: str) -> st.SearchStrategy[Any]:
        made = self._made(schema, name)
        if isinstance(schema, dict) and schema["type"] == "record":
            return made.map(lambda value, tag=schema["name"]: (tag, value))  # type: ignore[misc]
        return made


def _ints(pool: Sequence[Any], bits: int) -> list[int]:
    return [value for value in pool if type(value) is int and -(1 << bits) <= value < 1 << bits] or [0]


# -- JSON --------------------------------------------------------------------------------------------------------------

ODD_JSON: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1.5, 10**30, -(2**63), 1e308, float("nan"), float("inf"), [], {}, [[]], [None], {"a": {}}, [{}] * 50),
    *("", " ", "x", "null", "-1", "1g", "🦆", "a\0b", "../x", "a b", "m:f", "${x}", "x" * 5_000, "9" * 400),
)


def changed_documents(documents: Sequence[Any]) -> st.SearchStrategy[Any]:
    """Return JSON documents with changed values."""
    return st.builds(_change_document, st.sampled_from(documents), st.lists(_EDITS, max_size=5))


def _change_document(document: Any, edits: Sequence[Edit]) -> Any:
    return change_tree(document, edits, lambda _name, _value, what: ODD_JSON[what % len(ODD_JSON)])


def json_bytes(document: Any) -> bytes:
    """Return a document as UTF-8."""
    return json.dumps(document, ensure_ascii=False).encode()
