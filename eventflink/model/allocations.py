"""In which order allocations were asked for: their ids count up over the whole life of a cluster, across its leaders."""

Age = tuple[int, str]
"""What allocations are ordered by: ids count, so the shorter one is the older one."""


def age_of(allocation_id: str) -> Age:
    """Return what an allocation is ordered by."""
    return len(allocation_id), allocation_id
