"""Which blobs a clean-up takes away: a pure plan from what the storage lists and what jobs refer to, and carrying out one step of it.

The rule. A permanent blob stays while a job refers to it, and in any case for the grace period after its last upload: an upload
comes before the submission that names it, and uploading again restarts the period. After that it is condemned: moved aside, where
it can still be read. A later run brings it back if a job refers to it by then, and else deletes it. So a re-upload and a clean-up that
meet do no harm: an upload writes to the blob's place and a deletion only takes what lies aside, and what was moved aside in the very moment
of the upload is as young as that. A transient blob expires a fixed time after its upload; its key was never used before, so nothing meets.

That a blob was uploaded for a job is forgotten once the blob is gone.

All ages are differences of the storage's own clock. What has no date is never taken away.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from eventflink.blob.store import BlobEntry, BlobPlace, BlobStore, blob_of

MAX_STEPS: Final = 10_000
"""How many files one run touches; the next run continues."""

ABANDONED_AFTER_MS: Final = 3_600_000
"""An upload that is still incoming after this long has been given up, an owner without a blob lost it: a request is bounded far below."""


class CleaningAction(StrEnum):
    """What is done with one file."""

    CONDEMN = "condemn"
    RESTORE = "restore"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class CleaningStep:
    """One action on one file."""

    action: CleaningAction
    entry: BlobEntry


@dataclass(frozen=True, slots=True)
class CleaningRules:
    """Times in milliseconds."""

    grace_period_ms: int
    transient_lifetime_ms: int


def plan_cleaning(
    entries: Iterable[BlobEntry], referred: Collection[str], now_ms: int, rules: CleaningRules, max_steps: int = MAX_STEPS
) -> list[CleaningStep]:
    """Return what to do, at most `max_steps`; what brings blobs back comes first.

    Args:
        entries: what the store holds.
        referred: the keys that jobs refer to.
        now_ms: the present time by the storage's clock.
        rules: how long blobs stay.
        max_steps: the bound.

    """
    removals: list[CleaningStep] = []
    condemned: list[BlobEntry] = []
    owners: list[BlobEntry] = []
    present: set[str] = set()
    in_place: set[str] = set()
    for entry in entries:
        if entry.place is BlobPlace.OWNER:
            owners.append(entry)
            continue
        present.add(entry.key)
        if entry.key in referred:
            if entry.place is BlobPlace.PERMANENT:
                in_place.add(entry.key)
            elif entry.place is BlobPlace.CONDEMNED:
                condemned.append(entry)
        elif len(removals) < max_steps and _is_over(entry, now_ms, rules):
            action = CleaningAction.CONDEMN if entry.place is BlobPlace.PERMANENT else CleaningAction.DELETE
            removals.append(CleaningStep(action, entry))
    # A copy that lies aside of a blob that is at its place is left until nobody refers to the blob: of two copies none is in the way.
    lost = [CleaningStep(CleaningAction.DELETE, o) for o in owners if blob_of(o.key) not in present and _is_over(o, now_ms, rules)]
    restored = [CleaningStep(CleaningAction.RESTORE, entry) for entry in condemned if entry.key not in in_place]
    return [*restored, *removals, *lost][:max_steps]


def _is_over(entry: BlobEntry, now_ms: int, rules: CleaningRules) -> bool:
    """Tell whether a file that nobody refers to has had its time."""
    if entry.modified_ms is None:
        return False
    lifetimes = {
        BlobPlace.TRANSIENT: rules.transient_lifetime_ms,
        BlobPlace.INCOMING: ABANDONED_AFTER_MS,
        BlobPlace.OWNER: ABANDONED_AFTER_MS,
    }
    return now_ms - entry.modified_ms >= lifetimes.get(entry.place, rules.grace_period_ms)


def carry_out(store: BlobStore, step: CleaningStep) -> bool:
    """Do one step; tell whether anything was done: not if the file is gone, or was uploaded again since it was listed.

    Doing it twice is harmless.

    Raises:
        OSError, BlobStorageFailed: the storage did not do it.

    """
    entry = step.entry
    if step.action is CleaningAction.RESTORE:
        return store.restore(entry.key)
    try:
        if store.modified_ms(entry) != entry.modified_ms:
            return False
    except FileNotFoundError:
        return False
    if step.action is CleaningAction.CONDEMN:
        return store.condemn(entry.key)
    return store.delete(entry.key, entry.place)
