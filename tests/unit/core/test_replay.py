"""Replay is batching-invariant: however the log is cut, redelivered and littered with rejected decisions, the state is one."""

import os
import random
from functools import cache

import pytest

from eventflink.events.decision import Decision
from eventflink.events.log_events import EVENTS, FeatureLevelRaised, InputsSkipped, LeadershipGranted
from eventflink.leadership.fold import Fold
from eventflink.master.settings import MasterSettings
from eventflink.model.job_graph import RestartStrategy
from eventflink.model.statuses import RestartStrategyType
from tests.support.cluster import CODEC, START_MS, ScriptedCluster, new_fold, replay
from tests.support.scenarios import eventful_cluster


@cache
def _recorded() -> ScriptedCluster:
    return eventful_cluster(check_digests=True)


@cache
def _digests() -> list[str]:
    """Return the digest after each record of the log, record by record."""
    fold = new_fold()
    digests = []
    for offset, value in enumerate(_recorded().log):
        fold.fold_record(offset, 0, value)
        digests.append(fold.master.digest())
    return digests


def test_the_recorded_log_is_worth_replaying() -> None:
    """It holds every kind of event (no level is above the first), several epochs, and hundreds of events."""
    events = [e for v in _recorded().log for e in CODEC.decode(v).events]
    assert {type(e) for e in events} == set(EVENTS.values()) - {FeatureLevelRaised}
    assert len(events) > 250
    assert _recorded().fold.acceptance.epoch == 6


def test_every_prefix_leads_to_the_digest_of_the_live_leader() -> None:
    recorded = _recorded()
    assert len(recorded.digests) > 50
    for offset, digest in recorded.digests.items():
        assert _digests()[offset] == digest


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_every_prefix_read_in_batches_with_redeliveries_leads_to_the_same_digest(size: int) -> None:
    """At each batch's begin the end of the one before comes again, as after a rebalance."""
    log = _recorded().log
    fold = new_fold()
    for first in range(0, len(log), size):
        for offset in range(max(0, first - size), min(first + size, len(log))):
            fold.fold_record(offset, 0, log[offset])
        assert fold.master.digest() == _digests()[min(first + size, len(log)) - 1]
    assert fold.accepted_count == len(log)


STRIDE = 5
"""Of so many prefixes one is replayed, others with each commit; `make soak` replays all."""


def test_prefixes_everywhere_replayed_from_nothing_lead_to_the_same_digest() -> None:
    assert_prefixes_lead_to_the_same_digest(int(os.environ.get("FUZZ_SEED", "0")) // 1000 % STRIDE, STRIDE)


@pytest.mark.soak("eventflink.master", "eventflink.leadership", "eventflink.events")
def test_every_prefix_replayed_from_nothing_leads_to_the_same_digest() -> None:
    assert_prefixes_lead_to_the_same_digest(0, 1)


def assert_prefixes_lead_to_the_same_digest(first: int, stride: int) -> None:
    log = _recorded().log
    for length in range(len(log) - first, 0, -stride):
        assert replay(log[:length]).master.digest() == _digests()[length - 1]


def test_what_masters_are_configured_with_does_not_enter_the_fold() -> None:
    other = MasterSettings(
        slot_request_timeout_ms=1,
        job_store_capacity=1,
        request_horizon=1_000,
        request_horizon_ms=1,
        drills_allowed=False,
        restart_strategy=RestartStrategy(RestartStrategyType.FIXED_DELAY, 5, 5),
    )
    assert replay(_recorded().log, other).master.digest() == _digests()[-1]


def _rejected(dice: random.Random, fold: Fold) -> bytes:
    """Return what a deposed, a late or a confused leader may append at this point: never what the fold accepts next."""
    now = fold.acceptance
    epoch, sequence, leader_id = dice.choice(
        [
            (now.epoch, now.sequence, now.leader_id),
            (now.epoch, now.sequence + 2, now.leader_id),
            (now.epoch, now.sequence + 1, "zombie"),
            (now.epoch - 1, now.sequence + 1, now.leader_id),
            (now.epoch + 1, now.sequence + 1, now.leader_id),
        ]
    )
    event = InputsSkipped(1, "never counts")
    grant = dice.random() < 0.3
    return CODEC.encode(
        Decision(
            epoch=now.epoch + dice.choice([-1, 0, 2]) if grant else epoch,
            sequence=0 if grant else sequence,
            leader_id=leader_id,
            decided_at_ms=START_MS * 2,
            previous_hash=fold.running_hash,
            causes=(),
            actor="",
            events=(LeadershipGranted("zombie", "elsewhere"),) if grant else (event,),
        )
    )


@pytest.mark.parametrize("seed", range(5))
def test_rejected_decisions_anywhere_change_nothing(seed: int) -> None:
    dice = random.Random(seed)
    fold = new_fold()
    offset = 0
    for number, value in enumerate(_recorded().log):
        while dice.random() < 0.4:
            assert fold.fold_record(offset, 0, _rejected(dice, fold)) is None
            offset += 1
        assert fold.fold_record(offset, 0, value) is not None
        if dice.random() < 0.2:
            assert fold.fold_record(dice.randrange(offset + 1), 0, value) is None
        offset += 1
        assert fold.master.digest() == _digests()[number]
    assert fold.rejected_count > 10


def test_every_state_on_the_way_is_valid() -> None:
    """A decision is atomic: no reader ever stands inside of one."""
    fold = new_fold()
    for offset, value in enumerate(_recorded().log):
        fold.fold_record(offset, 0, value)
        fold.master.validate()


def test_the_digest_tells_states_apart() -> None:
    """Records that change only who was answered or the cursor change it as well; nothing is outside of it."""
    changing = [offset for offset, value in enumerate(_recorded().log) if any(CODEC.decode(value).causes)]
    before = [_digests()[o - 1] != _digests()[o] for o in changing]
    assert sum(before) >= 0.95 * len(before)
