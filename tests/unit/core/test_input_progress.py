"""P8: until when a leader has decided all requests that were there: by that, and not by a clock, answers are forgotten."""

import pytest

from eventflink.events.topics import Topic
from eventflink.leadership.input_progress import REQUESTS, InputProgress
from eventflink.leadership.intake import InboundRecord, InboundTopic, Intake
from eventflink.master.requests import Cursor


class Inputs:
    """The cursors and the inboxes of a leader."""

    def __init__(self, high_offset: int = 0) -> None:
        topics = {str(topic): InboundTopic("id", 0, high_offset if topic is Topic.COMMANDS else 0) for topic in Topic}
        self.intake = Intake(topics, 4, lambda _topic: None, lambda _topic: None)
        self.cursors = {str(topic): Cursor("id", 0) for topic in REQUESTS}
        self.progress = InputProgress(self.intake, REQUESTS)

    def arrive(self, count: int = 1, topic: Topic = Topic.COMMANDS) -> None:
        for _ in range(count):
            self.intake.enqueue(InboundRecord(str(topic), self.intake.inboxes[topic].last_offset + 1, None, b"x"))

    def decide(self, until: int) -> None:
        self.cursors[Topic.COMMANDS].next_offset = until
        self.intake.inboxes[Topic.COMMANDS].accepted(until)
        self.intake.resume_what_has_room()

    def look(self, now_ms: int) -> int:
        return self.progress.look(self.cursors, now_ms)


@pytest.fixture
def inputs() -> Inputs:
    return Inputs()


def test_where_nothing_waits_all_is_decided_until_now(inputs: Inputs) -> None:
    assert [inputs.look(now_ms) for now_ms in (100, 200)] == [100, 200]


def test_while_a_request_waits_nothing_moves(inputs: Inputs) -> None:
    inputs.look(100)
    inputs.arrive()
    assert [inputs.look(now_ms) for now_ms in (200, 10**9)] == [100, 100]
    inputs.decide(1)
    assert inputs.look(10**9 + 100) == 10**9 + 100


def test_where_something_waits_all_the_time_what_was_there_counts_when_it_is_decided(inputs: Inputs) -> None:
    inputs.look(100)
    inputs.arrive(2)
    assert inputs.look(200) == 100
    inputs.arrive(1)
    inputs.decide(1)
    assert inputs.look(300) == 100
    inputs.decide(2)
    assert inputs.look(400) == 200
    inputs.arrive(1)
    inputs.decide(3)
    assert inputs.look(500) == 400


@pytest.mark.rule("P8")
def test_what_was_there_before_a_leader_began_is_awaited_though_nothing_of_it_has_come() -> None:
    inputs = Inputs(high_offset=3)
    assert [inputs.look(now_ms) for now_ms in (100, 10**9)] == [0, 0]
    inputs.arrive(3)
    inputs.decide(3)
    assert inputs.look(10**9 + 100) == 10**9 + 100


def test_while_a_topic_is_paused_more_is_there_than_is_known(inputs: Inputs) -> None:
    inputs.look(100)
    inputs.arrive(4)
    assert Topic.COMMANDS in inputs.intake.is_paused
    inputs.cursors[Topic.COMMANDS].next_offset = 4
    assert inputs.look(200) == 100
    inputs.decide(4)
    assert inputs.look(300) == 300
