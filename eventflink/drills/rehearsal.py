"""The drill as a rehearsal: on a copy of the log, in a scratch cluster, with real masters of which the leader is killed.

Of the real cluster only the log is read. What is measured is what a failover of this very state takes on this host; there are no
TaskExecutors, so nothing runs and nothing is disturbed.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from eventflink.drills import DrillFailed, DrillRefused
from eventflink.drills.digests import DigestCheck, check_digests
from eventflink.drills.log_watch import DrillWatch, ms_between
from eventflink.drills.probe import Probe
from eventflink.drills.scratch import START_TIMEOUT_S, Command, ScratchCluster
from eventflink.drills.state_summary import StateSummary
from eventflink.leadership.fold import Fold
from eventflink.log.replay import log_bounds, replay
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.configuration import Configuration
from eventflink.model.rehearsal import CLEAN_UP_NOTED
from eventflink.snapshots.loading import load_fold
from eventflink.snapshots.log_copy import CopiedLog, copy_log

FIRST = "drill-first"
SECOND = "drill-second"


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalReport:
    """What the rehearsal found."""

    drill_id: str
    cluster_id: str
    scratch_id: str
    log: CopiedLog
    jobs: dict[str, int]
    """How many jobs of the copied state are in each status."""
    state_digest: str
    """Of the copied state; equal to the real one's at the same offset."""
    start_ms: float
    """From the start of the first master's process to its grant; a lease of silence is part of it."""
    start_decided_ms: float
    """The same to its first decision."""
    granted_ms: float
    """From kill -9 of the first master to the grant of the second."""
    decided_ms: float
    """The same to its first decision."""
    answered_ms: float
    """The same to the first command that it answered."""
    clean_ups_noted: int
    """What the masters would have cleaned up."""
    digests_before: DigestCheck
    digests_after: DigestCheck

    @property
    def faults(self) -> list[str]:
        """What is not as it must be; nothing: the rehearsal passed."""
        return [*self.digests_before.faults, *self.digests_after.faults]


def run_rehearsal(
    configuration: Configuration, access: ClusterAccess, command: Command, drill_id: str, timeout_s: float, say: Callable[[str], None]
) -> RehearsalReport:
    """Copy the log, start two masters on the copy, kill the one that leads, and measure; leave nothing behind.

    Raises:
        DrillRefused: there is nothing to copy.
        DrillFailed, ChildDied: the copy or a master failed; the real cluster is untouched.
        LogUnusable, LogDiverged, LogNotDense, GatewayError, KafkaException, AdministrationError: the log cannot be read.

    """
    source = access.cluster_id
    if log_bounds(access)[1] == 0:
        raise DrillRefused(f"the log of '{source}' is empty: there is nothing to rehearse")
    with ScratchCluster(configuration, access, command) as scratch:
        say(f"copying the log of '{source}' to '{scratch.access.cluster_id}'")
        log = copy_log(access, scratch.access, say)
        fold = _fold_alike(access, scratch.access, log.end_offset)
        standing, digest = StateSummary.of(fold), fold.master.digest()
        say(f"{log.end_offset - log.first_offset:,} records copied in {log.seconds:.1f} s; starting {FIRST}")
        with DrillWatch(scratch.access, fold) as watch:
            first = scratch.start_master(FIRST)
            grant = watch.wait_for_grant(standing.epoch, START_TIMEOUT_S, first.check)
            start_decided = watch.wait_for_decision(grant.found.epoch, timeout_s)
            say(f"{FIRST} leads epoch {grant.found.epoch}; starting {SECOND}")
            second = scratch.start_master(SECOND)
            known = [scratch.wait_for_presence(each, start_decided.offset) for each in (first, second)]
            # Ready is a standby that has heard the leader for as long as a standby listens before it campaigns.
            time.sleep(configuration.lease_timeout_ms / 1000)
            say("comparing digests")
            digests_before = check_digests(scratch.access, known)
            with Probe(scratch.access, drill_id) as probe:
                say(f"kill -9 of {FIRST}")
                killed_s = scratch.kill(FIRST)
                probe.start()
                taken = watch.wait_for_grant(grant.found.epoch, timeout_s, second.check)
                decided = watch.wait_for_decision(taken.found.epoch, timeout_s)
                answer = probe.wait_for_answer(taken.offset, timeout_s)
            if taken.found.master_id != SECOND:
                raise DrillFailed(f"epoch {taken.found.epoch} of the copy was granted to {taken.found.master_id}: who is that?")
            say(f"{SECOND} leads epoch {taken.found.epoch}; comparing digests")
            digests_after = check_digests(scratch.access, known[1:])
        return RehearsalReport(
            drill_id=drill_id,
            cluster_id=source,
            scratch_id=scratch.access.cluster_id,
            log=log,
            jobs=standing.count_jobs(),
            state_digest=digest,
            start_ms=ms_between(first.started_s, grant.seen_s),
            start_decided_ms=ms_between(first.started_s, start_decided.seen_s),
            granted_ms=ms_between(killed_s, taken.no_later_than(answer.came_s).seen_s),
            decided_ms=ms_between(killed_s, decided.no_later_than(answer.came_s).seen_s),
            answered_ms=ms_between(killed_s, answer.came_s),
            clean_ups_noted=scratch.count_lines(CLEAN_UP_NOTED),
            digests_before=digests_before,
            digests_after=digests_after,
        )


def _fold_alike(source: ClusterAccess, target: ClusterAccess, end_offset: int) -> Fold:
    """Return the state of the copy, which must be the one of the log that was copied."""
    folds = []
    for access in (source, target):
        fold = load_fold(access, wanted=lambda manifest: manifest.log_offset < end_offset)
        folds.append(replay(access, fold, end_offset))
    if folds[0].master.digest() != folds[1].master.digest() or folds[0].acceptance != folds[1].acceptance:
        raise DrillFailed(f"the copy of the log of '{source.cluster_id}' leads to another state than the log itself")
    return folds[1]
