"""An auditor accepts what the masters accept, says why of the rest, and works on a log whose beginning is gone."""

import pytest

from eventflink.audit import LogFaulty
from eventflink.audit.entries import judge_for, read_entries
from eventflink.events.log_events import JobStatusChanged, LeadershipGranted
from eventflink.events.schemas import MARKER
from eventflink.model.statuses import JobStatus
from tests.support.asked_log import append_foreign, entries_of
from tests.support.cluster import START_MS, ScriptedCluster, graph, new_fold, vertex
from tests.support.scenarios import eventful_cluster

LATE = JobStatusChanged("job", JobStatus.RUNNING, JobStatus.FAILING)


def contested_cluster(*, honest: bool = False) -> ScriptedCluster:
    """Return a cluster whose log holds a late decision of the first leader, a lost grant, and one after a decision that was lost.

    Unless all masters are honest, one decides without having won, and bids for an epoch far ahead.
    """
    cluster = ScriptedCluster()
    cluster.register()
    cluster.submit(graph(vertex("a")))
    cluster.fail_over()
    append_foreign(cluster, LATE, epoch=1, sequence=8, leader_id="leader-1")
    append_foreign(cluster, LeadershipGranted("master-2", "blob:2"), epoch=2, sequence=0, leader_id="rival")
    if not honest:
        append_foreign(cluster, LATE, epoch=2, sequence=1, leader_id="rival")
        append_foreign(cluster, LeadershipGranted("master-2", "blob:2"), epoch=7, sequence=0, leader_id="rival")
    cluster.submit(graph(vertex("a")), job_id="second")
    append_foreign(cluster, LATE, epoch=2, sequence=9, leader_id="leader-2")
    cluster.fail_over()
    cluster.submit(graph(vertex("a")), job_id="third")
    return cluster


def test_the_verdicts_are_those_of_the_fold() -> None:
    cluster = contested_cluster()
    entries = entries_of(cluster)
    assert [e.offset for e in entries] == list(range(len(cluster.log)))
    assert sum(e.accepted for e in entries) == cluster.fold.accepted_count
    assert sum(not e.accepted for e in entries) == 5


def test_a_rejection_says_why() -> None:
    rejections = [e.rejection for e in entries_of(contested_cluster()) if not e.accepted]
    assert rejections == [
        "epoch 1 is over: epoch 2 is leader-2's",
        "epoch 2 was granted already; epoch 2 is leader-2's",
        "epoch 2 is leader-2's",
        "a grant of epoch 7 does not follow on epoch 2",
        "sequence 9 does not follow on 5",
    ]


@pytest.mark.rule("P3b")
@pytest.mark.parametrize("first_offset", [0, 1])
def test_a_record_that_no_master_wrote_is_an_entry_that_does_not_count(first_offset: int) -> None:
    """Whether the log is whole or was trimmed; what comes behind it is judged as without it."""
    cluster = ScriptedCluster()
    cluster.register()
    expected = [*[entry.accepted for entry in entries_of(cluster)][first_offset:], False, False, True]
    for garbage in (b"", b"a stray line"):
        cluster.read_back(cluster.append(garbage))
    cluster.register("second")
    records = [(offset, START_MS, value) for offset, value in enumerate(cluster.log)][first_offset:]
    entries = list(read_entries(records, judge_for(first_offset, new_fold())))
    assert [entry.accepted for entry in entries] == expected
    assert [(entry.rejection, entry.byte_count, entry.decision.events) for entry in entries if not entry.accepted] == [
        ("foreign: no master wrote it", 0, ()),
        ("foreign: no master wrote it", 12, ()),
    ]


def test_a_trimmed_log_that_begins_with_an_accepted_decision_gets_the_same_verdicts() -> None:
    """Whatever was trimmed: what is there is judged as the fold judged it."""
    for cluster in (contested_cluster(honest=True), eventful_cluster()):
        whole = {e.offset: e.rejection for e in entries_of(cluster)}
        for first in [offset for offset, rejection in whole.items() if rejection is None]:
            assert {e.offset: e.rejection for e in entries_of(cluster, first)} == {o: r for o, r in whole.items() if o >= first}


def test_a_trimmed_log_that_begins_with_a_rejected_decision_is_judged_rightly_from_the_leaders_next_one_on() -> None:
    cluster = contested_cluster(honest=True)
    whole = {e.offset: e.accepted for e in entries_of(cluster)}
    late, lost_grant, _ = [offset for offset, accepted in whole.items() if not accepted]
    next_one = next(offset for offset, accepted in whole.items() if accepted and offset > late)
    for first in (late, lost_grant):
        judged = {e.offset: e.accepted for e in entries_of(cluster, first)}
        assert {o: a for o, a in judged.items() if o >= next_one} == {o: a for o, a in whole.items() if o >= next_one}


def test_a_record_that_was_read_before_is_told_once() -> None:
    cluster = contested_cluster()
    records = [(offset, START_MS, value) for offset, value in enumerate(cluster.log)]
    for first in (0, 3):
        again = [*records[first:8], *records[5:]]
        offsets = [e.offset for e in read_entries(again, judge_for(first, new_fold()))]
        assert offsets == list(range(first, len(records)))


@pytest.mark.parametrize("first", [0, 3])
def test_a_hole_and_garbage_are_named(first: int) -> None:
    cluster = contested_cluster()
    records = [(offset, START_MS, value) for offset, value in enumerate(cluster.log)][first:]
    with pytest.raises(LogFaulty, match="log offset 6 came after 4"):
        list(read_entries([r for r in records if r[0] != 5], judge_for(first, new_fold())))
    with pytest.raises(LogFaulty, match=r"log@5: .*fingerprint"):
        list(read_entries([(5, START_MS, MARKER + bytes(8)) if r[0] == 5 else r for r in records], judge_for(first, new_fold())))
