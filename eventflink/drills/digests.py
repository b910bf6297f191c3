"""Whether all masters hold the same state, and whether that is the state of the log.

Each master is asked for its digest with the offset that it reflects, until all of them name the same one, a bounded number of times; and
whatever offset a master names, its digest is compared with the one that a replay of the log has there.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eventflink.gateways.reads import KnownMaster, MasterSilent, ask_master
from eventflink.log.replay import log_bounds, new_fold, replay
from eventflink.model.cluster_access import ClusterAccess
from eventflink.snapshots.loading import load_fold

ROUNDS: Final = 10
PAUSE_S: Final = 0.3
DIGEST_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class MasterDigest:
    """What a master said of its state."""

    master_id: str
    role: str
    epoch: int
    log_offset: int
    digest: str
    replayed: str = ""
    """The digest that a replay of the log has at this offset."""


@dataclass(frozen=True, slots=True)
class DigestCheck:
    """All masters, compared."""

    masters: list[MasterDigest]
    silent: list[str]
    """Masters that gave no digest, with the reason."""
    same_offset: bool
    """Whether all of them stood at one offset in the end; on a busy cluster they may never."""

    @property
    def faults(self) -> list[str]:
        """What is not as it must be."""
        differing = [
            f"{m.master_id} has the digest {m.digest} at offset {m.log_offset}, a replay of the log {m.replayed}"
            for m in self.masters
            if m.digest != m.replayed
        ]
        return differing + [f"no digest of {reason}" for reason in self.silent]


def check_digests(access: ClusterAccess, masters: Sequence[KnownMaster]) -> DigestCheck:
    """Ask every master, and replay the log beside them.

    Raises:
        LogUnusable, LogDiverged, LogNotDense: the log cannot be folded.
        ReplayStalled, KafkaException, AdministrationError: Kafka does not give it.

    """
    for number in range(ROUNDS):
        found, silent = _ask_all(masters)
        same_offset = len({m.log_offset for m in found}) <= 1
        if same_offset and not silent:
            break
        if number < ROUNDS - 1:
            time.sleep(PAUSE_S)
    return DigestCheck(_replayed(access, found), silent, same_offset)


def _ask_all(masters: Sequence[KnownMaster]) -> tuple[list[MasterDigest], list[str]]:
    found, silent = [], []
    min_offset = 0
    for master in masters:
        parameters: dict[str, str | int] = {"linearizable": "true", "min_offset": max(0, min_offset)}
        try:
            answer = ask_master(master.presence.query_address, "/digest", parameters, timeout_s=DIGEST_TIMEOUT_S)
            told = MasterDigest(
                master.master_id, str(answer["role"]), int(answer["epoch"]), int(answer["log_offset"]), str(answer["digest"])
            )
        except (MasterSilent, KeyError, ValueError, TypeError) as error:
            silent.append(f"{master.master_id}: {error}")
        else:
            found.append(told)
            min_offset = max(min_offset, told.log_offset)
    return found, silent


def _replayed(access: ClusterAccess, found: list[MasterDigest]) -> list[MasterDigest]:
    """Fold the log past each of these offsets: from its first record, which trusts nobody, unless it was trimmed."""
    if not found:
        return []
    first = min(m.log_offset for m in found)
    is_whole = log_bounds(access)[0] == 0
    fold = new_fold(access) if is_whole else load_fold(access, wanted=lambda manifest: manifest.log_offset <= first)
    digests: dict[int, str] = {}
    for offset in sorted({m.log_offset for m in found}):
        replay(access, fold, offset + 1)
        digests[offset] = fold.master.digest()
    return [
        MasterDigest(m.master_id, m.role, m.epoch, m.log_offset, m.digest, digests[m.log_offset])
        for m in sorted(found, key=lambda each: each.master_id)
    ]
