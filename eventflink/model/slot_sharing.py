"""Slot sharing groups, Flink's SlotSharingGroup: which vertices of a job may share slots, and what such a slot has to have.

A slot that is shared has room for one subtask of each vertex of its group at the same time, so what is asked for is the sum of what the
vertices ask for. As in Flink either all vertices of a group say what they need, or none does. A vertex that names no group has slots of
its own, as Flink has it for batch jobs, whose vertices are put into no common group by default.
"""

from collections.abc import Iterable
from typing import NamedTuple

from eventflink.model.resources import InvalidResources, ResourceProfile, sum_of


class InvalidSlotSharing(ValueError):
    """A slot sharing group that cannot be; the message says which and why."""


class GroupMember(NamedTuple):
    """What a vertex says of slots."""

    vertex_id: str
    slot_sharing_group: str | None
    resources: ResourceProfile | None


def members_of_groups(vertices: Iterable[GroupMember]) -> dict[str, list[GroupMember]]:
    """Return the vertices of each slot sharing group, in the order of the graph."""
    groups: dict[str, list[GroupMember]] = {}
    for vertex in vertices:
        if vertex.slot_sharing_group is not None:
            groups.setdefault(vertex.slot_sharing_group, []).append(vertex)
    return groups


def profiles_of_groups(vertices: Iterable[GroupMember]) -> dict[str, ResourceProfile | None]:
    """Return what a slot of each slot sharing group has to have; None: any slot will do.

    Raises:
        InvalidSlotSharing: only some vertices of a group say what they need, or all of them together need more than can be written down.

    """
    profiles: dict[str, ResourceProfile | None] = {}
    for name, members in members_of_groups(vertices).items():
        asking = [v.vertex_id for v in members if v.resources is not None]
        silent = [v.vertex_id for v in members if v.resources is None]
        if asking and silent:
            raise InvalidSlotSharing(
                f"slot_sharing_group '{name}': vertex '{asking[0]}' has resources and vertex '{silent[0]}' has not; "
                "in one group either all vertices have resources, or no vertex has"
            )
        try:
            profiles[name] = sum_of(v.resources for v in members)
        except InvalidResources as error:
            raise InvalidSlotSharing(f"slot_sharing_group '{name}': what its vertices ask for together cannot be: {error}") from error
    return profiles
