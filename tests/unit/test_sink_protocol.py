"""What the exactly-once sink does with a batch, given the mark that it finds; the simulation runs it among faults."""

import pytest

from eventflink.model.kafka_settings import KafkaAccess
from eventflink.streams.client_watch import ClientWatch
from eventflink.streams.failures import CheckpointLost, ClientSilent, SinkFenced
from eventflink.streams.sink_protocol import (
    AFTER_FENCING,
    BEFORE_FENCING,
    BeginTransaction,
    Commit,
    ComputeBatch,
    FenceOlder,
    KafkaSinkSettings,
    Mark,
    SendMark,
    SinkProtocol,
    SinkStep,
    WriteRecords,
    next_step,
)

OPENING: list[SinkStep] = [BEFORE_FENCING, FenceOlder(), AFTER_FENCING]


def sink(attempt: int = 2, query: int = 1) -> SinkProtocol:
    return SinkProtocol(KafkaSinkSettings(KafkaAccess(""), "answers", "job/v/0", attempt, 60_000, "", query=query))


def run(protocol: SinkProtocol, batch_id: int, offsets: str = "", early: Mark | None = None, late: Mark | None = None) -> list[SinkStep]:
    """Return the steps of a batch, where these marks are found before and after older attempts are fenced."""
    steps, taken = protocol.steps(batch_id, offsets), list[SinkStep]()
    step = next_step(steps, None)
    while step is not None:
        taken.append(step)
        step = next_step(steps, early if step is BEFORE_FENCING else (late or early) if step is AFTER_FENCING else None)
    return taken


def writing(batch_id: int, attempt: int = 2, offsets: str = "") -> list[SinkStep]:
    return [BeginTransaction(), WriteRecords(), SendMark(Mark(batch_id + 1, attempt, offsets)), Commit()]


def test_an_attempt_fences_older_ones_once_and_each_batch_moves_the_mark_in_its_transaction() -> None:
    protocol = sink()
    assert run(protocol, 0, "a") == OPENING + writing(0, offsets="a")
    assert run(protocol, 1, "b") == writing(1, offsets="b")


@pytest.mark.rule("S1")
def test_a_batch_that_an_older_attempt_committed_until_it_was_fenced_is_computed_and_not_written() -> None:
    protocol = sink()
    assert run(protocol, 4, early=Mark(4, 1), late=Mark(5, 1)) == [*OPENING, ComputeBatch()]
    assert run(protocol, 5) == writing(5)


@pytest.mark.rule("S2")
def test_an_attempt_that_finds_the_mark_of_a_newer_one_ends_before_it_fences_anything() -> None:
    steps = sink(2).steps(7, "")
    assert next_step(steps, None) is BEFORE_FENCING
    with pytest.raises(SinkFenced, match="query 1 of attempt 3 of job/v/0 has written to 'answers': this is query 1 of attempt 2"):
        next_step(steps, Mark(7, 3))


@pytest.mark.rule("S1")
@pytest.mark.parametrize(
    ("batch_id", "mark", "message"),
    [
        (3, Mark(5, 1, "x"), "batch 3 is to be written to 'answers', and batch 4 was written before"),
        (4, Mark(5, 1, "x"), "batch 4 was written to 'answers' before, and had read up to other offsets"),
    ],
)
def test_a_directory_that_is_behind_what_was_written_is_noticed(batch_id: int, mark: Mark, message: str) -> None:
    with pytest.raises(CheckpointLost, match=message):
        run(sink(), batch_id, "y", mark)


def test_a_batch_that_another_of_its_number_has_replaced_in_the_directory_is_noticed_at_the_next_one() -> None:
    steps = sink().steps(5, "z", "y")
    assert [next_step(steps, None), next_step(steps, None), next_step(steps, None)] == OPENING
    with pytest.raises(CheckpointLost, match="batch 4 was written to 'answers' before, and had read up to other offsets"):
        next_step(steps, Mark(5, 1, "x"))


@pytest.mark.parametrize(("then", "now"), [("x", "x"), ("", "x"), ("x", "")])
def test_a_repeated_batch_that_reads_the_same_or_of_which_that_is_unknown_is_no_loss(then: str, now: str) -> None:
    assert run(sink(), 4, now, Mark(5, 1, then))[-1] == ComputeBatch()


@pytest.mark.rule("S3")
@pytest.mark.parametrize(
    ("batch_id", "offsets", "message"),
    [
        (3, "x", "batch 3 is to be written to 'answers', and batch 4 was written before"),
        (4, "y", "batch 4 was written to 'answers' before, and had read up to other offsets"),
        (4, "", "batch 4 was written to 'answers', and the checkpoint directory does not have it"),
    ],
)
def test_a_savepoint_is_not_taken_of_a_directory_that_is_behind_what_was_written(batch_id: int, offsets: str, message: str) -> None:
    """The job that begins in it would take records for written which are not."""
    steps = sink().settling(batch_id, offsets)
    assert [next_step(steps, None), next_step(steps, None), next_step(steps, None)] == OPENING
    with pytest.raises(CheckpointLost, match=message):
        next_step(steps, Mark(5, 1, "x"))


def settle(protocol: SinkProtocol, early: Mark | None, late: Mark | None) -> list[SinkStep]:
    """Return the steps after batch 4 was cut, which was to read up to x, where these marks are found."""
    steps, taken = protocol.settling(4, "x", "w"), list[SinkStep]()
    step = next_step(steps, None)
    while step is not None:
        taken.append(step)
        step = next_step(steps, early if step is BEFORE_FENCING else late if step is AFTER_FENCING else None)
    return taken


@pytest.mark.parametrize(
    ("late", "next_batch_id", "offsets"), [(None, 0, ""), (Mark(4, 1, "w"), 4, "w"), (Mark(5, 1, "x"), 5, "x")], ids=["none", "4", "5"]
)
def test_who_settles_a_sink_says_which_batch_it_has_not_got_yet_and_puts_itself_into_the_mark(
    late: Mark | None, next_batch_id: int, offsets: str
) -> None:
    protocol = sink(2, query=3)
    own = SendMark(Mark(next_batch_id, 2, offsets, query=3))
    assert settle(protocol, None if late is None else Mark(4, 1, "w"), late) == [*OPENING, BeginTransaction(), own, Commit()]
    assert protocol.next_batch_id == next_batch_id


@pytest.mark.rule("S3")
@pytest.mark.parametrize(("attempt", "query"), [(1, 2), (2, 2)])
@pytest.mark.parametrize("looked_before", [False, True])
def test_a_query_that_begins_to_write_after_a_newer_one_has_settled_the_sink_ends(attempt: int, query: int, *, looked_before: bool) -> None:
    """Neither had written, so nothing that it had begun was there to be fenced."""
    marks = [step.mark for step in settle(sink(2, query=3), None, None) if isinstance(step, SendMark)]
    settled = marks[0] if marks else None
    with pytest.raises(SinkFenced, match=f"query 3 of attempt 2 of job/v/0 has written to 'answers': this is query {query} of"):
        run(sink(attempt, query), 4, "x", None if looked_before else settled, settled)


def test_the_next_query_of_an_attempt_that_has_settled_the_sink_goes_on() -> None:
    """As where the savepoint has failed, and the stream resumes."""
    assert run(sink(2, query=4), 4, "x", Mark(5, 2, "x", query=3)) == [*OPENING, ComputeBatch()]


@pytest.mark.rule("P15")
def test_a_task_that_is_silent_for_too_long_is_given_up_and_one_that_speaks_is_not() -> None:
    watch = ClientWatch(timeout_s=60)
    for now_s in (0.0, 59.0, 118.0):
        watch.note(f"at {now_s}", now_s)
    watch.note("at 118.0", 178.0)
    with pytest.raises(ClientSilent, match="has not been heard of for 60 s"):
        watch.note("at 118.0", 178.1)
