"""A fold as a document of JSON values, and back: what a snapshot holds.

Which fields there are is taken from the classes of the state, so nothing of it can be left out: a field that cannot be stored is an
error of the first snapshot, and of a test before that. Indexes that are derived from other fields are computed again, not stored. What
is as it begins is not stored either. So a document of an older version, which lacks fields, loads with their defaults, and one of a
newer version is refused only where it has something in fields that this one does not know (P19).
"""

import dataclasses
import functools
from collections import deque
from typing import Any, Final
from weakref import WeakValueDictionary

from eventflink.events.columns import ColumnsUnreadable
from eventflink.events.record_columns import Columns, Derivation, Records
from eventflink.leadership.fold import Fold
from eventflink.master.dispatcher import Dispatcher
from eventflink.master.execution_graph import (
    ExecutionGraph,
    ExecutionVertex,
    begun_subtasks_of,
    edges_by_source,
    edges_by_target,
    forward_groups_of,
    group_profiles_of,
    limited_of,
)
from eventflink.master.job_master import JobMaster
from eventflink.master.master import Master
from eventflink.master.queue_shares import QueueShares
from eventflink.master.settings import MasterSettings
from eventflink.master.shared_slots import SharedSlots
from eventflink.master.slot_manager import SlotManager
from eventflink.master.slot_requests import RequestQueues
from eventflink.master.slots import totals_of
from eventflink.model.conditions import conditional_vertices_of
from eventflink.model.job_graph import JobGraph
from eventflink.model.mapped_vertices import mapping_edges_of
from eventflink.model.pipelined_edges import pipelined_edges_of
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import IllegalTransition

FORMAT_VERSION: Final = 1
"""Of the document; another one is refused."""

_NOT_FOLDED: Final = frozenset({"master", "codec"})
"""The fields of a Fold that are no plain values: the one is stored by its parts, the other has no state."""


def _group_profiles_of(graph: JobGraph) -> dict[str, ResourceProfile | None]:
    try:
        return group_profiles_of(graph)
    except IllegalTransition as error:
        raise ColumnsUnreadable(str(error)) from error


def _derivations(master: Master) -> dict[tuple[type[Any], str], Derivation]:
    """Return what computes the derived fields of the records of this master's state."""
    made: dict[tuple[type[Any], str], Derivation] = {
        (SlotManager, "queues"): lambda columns, _: list(map(RequestQueues.of, columns["pending"], columns["job_queues"])),
        (SlotManager, "shares"): lambda columns, _: list(
            map(QueueShares.of, columns["job_queues"], columns["allocations"], columns["task_managers"])
        ),
        (SlotManager, "totals"): lambda columns, _: list(map(totals_of, columns["task_managers"])),
        (SlotManager, "sharing"): lambda columns, _: list(
            map(SharedSlots.of, columns["pending"], columns["allocations"], columns["task_managers"])
        ),
        (Dispatcher, "examples"): lambda _columns, count: [WeakValueDictionary() for _ in range(count)],
        (ExecutionGraph, "edges_from"): lambda columns, _: list(map(edges_by_source, columns["graph"])),
        (ExecutionGraph, "edges_to"): lambda columns, _: list(map(edges_by_target, columns["graph"])),
        (ExecutionGraph, "forward_groups"): lambda columns, _: list(map(forward_groups_of, columns["graph"])),
        (ExecutionGraph, "pipelined_edges"): lambda columns, _: list(map(pipelined_edges_of, columns["graph"])),
        (ExecutionGraph, "has_closing_vertices"): lambda columns, _: [graph.has_closing_vertices for graph in columns["graph"]],
        (ExecutionGraph, "conditional_vertices"): lambda columns, _: list(map(conditional_vertices_of, columns["graph"])),
        (ExecutionGraph, "mapping_edges"): lambda columns, _: list(map(mapping_edges_of, columns["graph"])),
        (ExecutionGraph, "limited"): lambda columns, _: list(map(limited_of, columns["vertices"])),
        (ExecutionVertex, "begun_subtasks"): lambda columns, _: list(map(begun_subtasks_of, columns["subtasks"])),
        (ExecutionGraph, "group_profiles"): lambda columns, _: list(map(_group_profiles_of, columns["graph"])),
    }
    components = master.components()
    for cls in (JobMaster, *map(type, components.values())):
        for field in dataclasses.fields(cls):
            if field.name in components:  # A component that this one asks.
                made[cls, field.name] = _repeating(components[field.name])
    return made


def _repeating(value: Any) -> Derivation:
    return lambda _columns, count: [value] * count


class StateCodec:
    """Writes folds, and restores one into the master it was made for."""

    def __init__(self, master: Master) -> None:
        """Make the codecs of all parts.

        Raises:
            NotStorable: a field of the state cannot be stored; the message names it.

        """
        columns = Columns(_derivations(master))
        self._master = master
        self._fold: Records = columns.records(Fold, _NOT_FOLDED)
        self._parts: dict[str, Records] = {name: columns.records(type(part)) for name, part in master.components().items()}

    def restore(self, document: Any, fold: Fold) -> None:
        """Set everything in the fold of this codec's master, which must be fresh, to what the document says.

        Raises:
            ColumnsUnreadable: the document has another format, or is damaged; the fold is then of no use.

        """
        if type(document) is not dict or document.get("format") != FORMAT_VERSION or set(document) != {"format", "fold", "master"}:
            raise ColumnsUnreadable(f"it is not a document of the format {FORMAT_VERSION}")
        if type(document["master"]) is not dict or not set(document["master"]) <= set(self._parts):
            raise ColumnsUnreadable(f"the parts of a master are {', '.join(self._parts)}, and it has others")
        for name, column in self._parts.items():
            # A part that the writer did not know, or did not use yet, stays as it begins.
            if name in document["master"]:
                self._restore_part(name, column.read(document["master"][name], 1)[0])
        dispatcher = self._master.dispatcher
        for job in filter(None, map(dispatcher.jobs.get, dispatcher.ended)):
            dispatcher.share(job)
        for name, (value,) in self._fold.read_columns(document["fold"], 1).items():
            before = getattr(fold, name)
            if isinstance(before, deque):  # Its bound is not part of the state.
                before.extend(value)
            else:
                setattr(fold, name, value)

    def _restore_part(self, name: str, value: Any) -> None:
        """Fill a component in place: others ask it, and the master's handlers are bound to it."""
        component = getattr(self._master, name)
        for field in dataclasses.fields(component):
            setattr(component, field.name, getattr(value, field.name))

    def write(self, fold: Fold) -> dict[str, Any]:
        """Return the document of a fold; it shares lists with nothing that changes later."""
        return {
            "format": FORMAT_VERSION,
            "fold": self._fold.write([fold]),
            "master": {name: said for name, part in fold.master.components().items() if (said := self._parts[name].write_changed([part]))},
        }


@functools.cache
def _writer() -> StateCodec:
    """Return the codec that writes every fold: to write asks nothing of the master that it was made for."""
    return StateCodec(Master(MasterSettings()))


def document_of(fold: Fold) -> dict[str, Any]:
    """Return the document of a fold: JSON values."""
    return _writer().write(fold)


def restore_fold(document: Any, fold: Fold) -> None:
    """Bring a fresh fold to where the document stands; raises as `StateCodec.restore` does."""
    StateCodec(fold.master).restore(document, fold)
