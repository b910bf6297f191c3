"""What masters say of themselves is told of each: how far behind the leader it was then, whether it is ready, and who is silent."""

from eventflink.events.codec import PayloadCodec
from eventflink.events.effects import LeaderHeartbeat, MasterPresence
from eventflink.log.newest_records import RecordRead
from eventflink.model.statuses import Role
from eventflink.rest.own.present_masters import masters_of

NOW_MS = 1_795_312_800_000
LEASE_MS = 1_000
WINDOW = 100


def presence(name: str, log_offset: int, role: Role = Role.STANDBY) -> MasterPresence:
    return MasterPresence(
        master_id=name, incarnation=f"{name}-1", sequence=1, role=role, epoch=3, log_offset=log_offset, feature_level=1, query_address=""
    )


def heartbeat(log_offset: int, epoch: int = 3) -> LeaderHeartbeat:
    return LeaderHeartbeat(epoch, "leader-1", "master-1", "blob:1", log_offset)


def records(*said: tuple[int, MasterPresence | LeaderHeartbeat | bytes]) -> list[RecordRead]:
    codec = PayloadCodec("LeadershipEnvelope")
    values = [(ago, each if isinstance(each, bytes) else codec.encode(each)) for ago, each in said]
    return [RecordRead(offset, NOW_MS - ago, None, value) for offset, (ago, value) in enumerate(values)]


def test_a_standby_is_as_far_behind_as_it_was_when_it_spoke_and_ready_if_that_is_no_more_than_the_window() -> None:
    said = records(
        (900, heartbeat(500)),
        (800, presence("near", 450)),
        (700, presence("far", 350)),
        (600, presence("master-1", 560, Role.LEADER)),
        (500, heartbeat(9_000)),
    )
    masters = masters_of(said, PayloadCodec("LeadershipEnvelope"), NOW_MS, LEASE_MS, WINDOW)
    assert [(each.master_id, each.lag, each.ready) for each in masters] == [
        ("master-1", None, False),
        ("near", 50, True),
        ("far", 150, False),
    ]
    assert not any(each.silent for each in masters)


def test_the_newest_word_of_a_master_counts_and_one_that_has_gone_is_silent_and_not_ready() -> None:
    said = records(
        (9_000, heartbeat(10)),
        (8_000, presence("gone", 10)),
        (8_000, presence("there", 1)),
        (50, b"no presence"),
        (50, presence("there", 10)),
    )
    masters = masters_of(said, PayloadCodec("LeadershipEnvelope"), NOW_MS, LEASE_MS, WINDOW)
    assert [(each.master_id, each.silent, each.ready, each.lag) for each in masters] == [
        ("there", False, True, 0),
        ("gone", True, False, 0),
    ]


def test_nobody_is_compared_with_a_leader_that_was_not_heard_of_nor_with_one_that_is_over() -> None:
    said = records((300, presence("first", 7)), (200, heartbeat(20, epoch=3)), (100, heartbeat(5, epoch=2)), (50, presence("second", 15)))
    assert {each.master_id: each.lag for each in masters_of(said, PayloadCodec("LeadershipEnvelope"), NOW_MS, LEASE_MS, WINDOW)} == {
        "first": None,
        "second": 5,
    }
