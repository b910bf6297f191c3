"""No input stops a master (P10); a new leader resends what its predecessor may not have sent."""

import json
from typing import Any

import pytest

from eventflink.events.effects import FileUploadOrder, LeaderChanged, TaskCancellation
from eventflink.events.inputs import JobSubmission, SlotReport
from eventflink.events.log_events import InputsBound, InputsLost, JobSubmitted, LogEvent, RequestRejected, TaskManagerRegistrationRefused
from eventflink.events.topics import Topic
from eventflink.leadership.inbound import InboundDecoder
from eventflink.leadership.intake import InboundRecord, PartitionInbox
from eventflink.leadership.leader import ApplyFailed, Leader
from eventflink.leadership.release import recent_replies
from eventflink.master.effects import CleanUp, Deployment
from eventflink.master.inputs import LoseInputs
from eventflink.master.settings import Context
from eventflink.model.statuses import ExecutionState, IllegalTransition, JobStatus
from tests.support.cluster import CODEC, REPORTS, ScriptedCluster, dead_letters, deployments, graph, replies, tasks, vertex

SUBMISSION = json.dumps({"job_graph": graph(vertex("a")), "request_id": "r", "reply_partition": 2, "job_id": "bad"}).encode()


class TestPoison:
    @pytest.mark.rule("P10")
    def test_an_input_at_which_deciding_fails_is_refused_and_the_rest_goes_on(
        self, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Deciding is pure: whatever it raises, the state is untouched, so the input alone is refused."""
        decide = cluster.master._deciders[JobSubmission]

        def failing(submission: Any, context: Context) -> list[LogEvent]:
            if submission.job_id == "bad":
                raise ZeroDivisionError("a bug")
            return decide(submission, context)

        monkeypatch.setitem(cluster.master._deciders, JobSubmission, failing)
        cluster.put(Topic.SUBMISSIONS, SUBMISSION)
        effects = cluster.settle()
        [rejected] = cluster.events(RequestRejected)
        assert (rejected.code, rejected.request_id, rejected.subject) == ("InternalError", "r", "bad")
        assert "a bug" in rejected.message
        assert len(dead_letters(effects)) == 1
        assert [r.reply_partition for r in replies(effects)] == [2]
        cluster.submit(graph(vertex("a")), job_id="good")
        assert cluster.job("good").status is JobStatus.RUNNING

    @pytest.mark.rule("P10")
    def test_an_input_whose_events_cannot_be_written_is_refused(self, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        """P10: events are encoded and decoded again before they are applied."""
        decide = cluster.master._deciders[JobSubmission]

        def failing(submission: Any, context: Context) -> list[LogEvent]:
            events = decide(submission, context)
            events[1].actor = 5  # type: ignore[attr-defined] # the test breaks it
            return events

        monkeypatch.setitem(cluster.master._deciders, JobSubmission, failing)
        cluster.put(Topic.SUBMISSIONS, SUBMISSION)
        cluster.settle()
        assert cluster.events(RequestRejected)[0].code == "InternalError"
        assert not cluster.master.dispatcher.jobs

    @pytest.mark.rule("P10a")
    def test_a_decision_that_would_be_too_large_is_refused(self, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("eventflink.leadership.leader.MAX_DECISION_BYTES", 500)
        document = graph({**vertex("a"), "parameters": {"p": "x" * 1_000}})
        cluster.submit(document)
        [rejected] = cluster.events(RequestRejected)
        assert "at most 438 are allowed" in rejected.message, "an eighth is kept for the refusal"

    @pytest.mark.rule("P10")
    def test_an_input_that_cannot_be_applied_costs_one_leadership_whose_last_decision_refuses_it(
        self, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The state, half changed, is dropped; whoever leads next finds the input answered."""
        with monkeypatch.context() as patch:

            def failing(_event: Any, _at_ms: int) -> None:
                raise IllegalTransition("a bug")

            cluster.put(Topic.SUBMISSIONS, SUBMISSION)
            patch.setitem(cluster.master.replays, JobSubmitted, (failing,))
            with pytest.raises(ApplyFailed, match="JobSubmitted decided for JobSubmission cannot be applied"):
                cluster.settle()
        effects = cluster.take_effects()
        [rejected] = cluster.last_events()
        assert isinstance(rejected, RequestRejected)
        assert (rejected.code, rejected.request_id, rejected.reply_partition) == ("InternalError", "r", 2)
        assert [r.payload for r in replies(effects)] == [rejected]
        assert len(dead_letters(effects)) == 1
        cluster.fail_over()
        cluster.settle()
        assert not cluster.master.dispatcher.jobs
        cluster.submit(graph(vertex("a")))
        assert cluster.job("job").status is JobStatus.RUNNING

    def test_where_a_refusal_itself_cannot_be_applied_nothing_is_said_that_every_reader_would_fall_at(
        self, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def failing(_event: Any, _at_ms: int) -> None:
            raise IllegalTransition("a bug")

        with monkeypatch.context() as patch:
            patch.setitem(cluster.master.replays, RequestRejected, (failing,))
            count = len(cluster.log)
            with pytest.raises(ApplyFailed, match="RequestRejected decided for CancelJob cannot be applied"):
                cluster.cancel("none")
        assert len(cluster.log) == count
        cluster.fail_over()
        cluster.settle()
        assert len(cluster.events(RequestRejected)) == 1

    def test_of_a_record_that_says_more_than_one_decision_can_answer_the_rest_is_refused(
        self, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What fits is decided, the record is buried, and the leader leads on: else a stream of such records would leave nobody time."""
        monkeypatch.setattr("eventflink.leadership.leader.MAX_DECISION_BYTES", 4_000)
        count = len(cluster.log)
        cluster.put(Topic.TASKMANAGERS, REPORTS.encode([SlotReport(f"tm{n}", "i", (), ()) for n in range(200)]))
        effects = cluster.settle()
        assert len(cluster.log) == count + 1
        assert len(cluster.log[-1]) < 4_200
        *told, rejected = cluster.last_events()
        assert 50 < len(told) < 150
        assert all(isinstance(event, TaskManagerRegistrationRefused) for event in told)
        assert isinstance(rejected, RequestRejected)
        assert rejected.code == "InternalError"
        assert "taskmanagers@0 could not be decided: ValueError('the decision has" in rejected.message
        assert len(dead_letters(effects)) == 1
        cluster.register()
        assert cluster.master.slot_manager.get_number_registered_slots() == 4

    def test_a_record_of_which_the_rest_cannot_be_refused_is_refused_as_a_whole(
        self, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        refusals: list[int] = []
        encoded = Leader._encoded

        def full(self: Leader, events: list[LogEvent], draft: Any, room: int = 0) -> Any:
            refusals.append(len(refusals))
            if len(refusals) <= 2:
                raise ValueError("the decision is full")
            return encoded(self, events, draft, room)

        cluster.put(Topic.TASKMANAGERS, REPORTS.encode([SlotReport("tm", "i", (), ())]))
        with monkeypatch.context() as patch:
            patch.setattr(Leader, "_encoded", full)
            with pytest.raises(ApplyFailed, match="taskmanagers@0 cannot be answered in one decision"):
                cluster.settle()
        cluster.fail_over()
        cluster.register()
        assert len(cluster.events(RequestRejected)) == 1
        assert cluster.master.slot_manager.get_number_registered_slots() == 4

    def test_a_cursor_that_does_not_fit_ends_the_leadership(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """P6: an input that an accepted decision answered can never be decided again, whatever hands it to the leader."""
        cluster = ScriptedCluster()
        cluster.command(type="CancelJob", job_id="none")
        [record] = cluster.inbound["commands"]
        commands = cluster.leader.inboxes["commands"]
        commands.waiting.append(record)
        monkeypatch.setattr(PartitionInbox, "head_from", lambda inbox, _: record if inbox is commands else None)
        count = len(cluster.log)
        with pytest.raises(ApplyFailed, match=r"answers commands@0..0, but the cursor stands at 1"):
            cluster.settle()
        assert len(cluster.log) == count

    def test_an_input_that_the_decoder_itself_stumbles_over_is_refused(
        self, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is not even known who asked; and it is not decoded a second time in vain."""
        decode = InboundDecoder.decode

        def stumbling(self: InboundDecoder, record: InboundRecord) -> Any:
            if record.value == b"stumble":
                raise SystemError("a bug of a library")
            return decode(self, record)

        monkeypatch.setattr(InboundDecoder, "decode", stumbling)
        cluster.put(Topic.COMMANDS, b"stumble")
        cluster.put(Topic.SUBMISSIONS, SUBMISSION)
        effects = cluster.settle()
        [rejected] = cluster.events(RequestRejected)
        assert (rejected.code, rejected.request_id) == ("InternalError", "")
        assert "a bug of a library" in rejected.message
        assert len(dead_letters(effects)) == 1
        assert cluster.job("bad").status is JobStatus.RUNNING


class TestPromotion:
    def test_what_nobody_confirmed_is_sent_again(self, cluster: ScriptedCluster) -> None:
        """Deployments, cancellations, uploads and clean-ups; nothing that was acknowledged."""
        cluster.register(slots=6)
        pending, running = deployments(cluster.submit(graph(vertex("a", 2))))
        cluster.report(running, ExecutionState.RUNNING)
        [ending] = deployments(cluster.submit(graph(vertex("a")), job_id="ending"))
        cluster.report(ending, ExecutionState.RUNNING)
        cluster.cancel("ending")
        [done] = deployments(cluster.submit(graph(vertex("a")), job_id="done"))
        cluster.report(done, ExecutionState.FINISHED)
        cluster.command(type="RequestFileUpload", request_id="up", job_id="done", vertex_id="a")
        effects = cluster.fail_over().effects
        assert effects[0] == Deployment("", "", LeaderChanged("master-1", "blob:1"))
        assert deployments(effects) == [pending]
        assert [e.payload.job_id for e in effects if isinstance(e, Deployment) and isinstance(e.payload, TaskCancellation)] == ["ending"]
        assert [e.payload.request_id for e in effects if isinstance(e, Deployment) and isinstance(e.payload, FileUploadOrder)] == ["up"]
        assert [e.job_id for e in effects if isinstance(e, CleanUp)] == ["done"]
        cluster.run(effects)
        assert cluster.job("ending").status is JobStatus.CANCELED

    def test_the_recent_answers_are_sent_again_with_where_they_stand(self, cluster: ScriptedCluster) -> None:
        cluster.submit(graph(vertex("a")), request_id="r1", partition=1)
        cluster.submit(graph(vertex("a")), job_id="x", request_id="silent", partition=-1)
        cluster.cancel("none", request_id="r2")
        assert any(replies(released.effects) for released in cluster.released)
        cluster.fail_over()
        again = recent_replies(cluster.fold)
        assert [replies(r.effects)[0].request_id for r in again] == ["r1", "r2"]
        for released in again:
            decision = CODEC.decode(cluster.log[released.offset])
            assert (released.epoch, released.sequence) == (decision.epoch, decision.sequence) == (1, released.sequence)

    @pytest.mark.rule("P6")
    def test_decisions_that_were_never_read_back_are_decided_again(self, cluster: ScriptedCluster) -> None:
        """The record was lost with its leader; the input waits behind the cursor (P6)."""
        cluster.register()
        cluster.put(Topic.SUBMISSIONS, SUBMISSION)
        assert cluster.decide() is not None
        del cluster.digests[len(cluster.log) - 1]
        cluster.log.pop()
        cluster.fail_over()
        assert tasks(cluster.settle())
        assert cluster.job("bad").status is JobStatus.RUNNING

    @pytest.mark.rule("P9")
    def test_bindings_and_losses_come_before_any_input(self, cluster: ScriptedCluster) -> None:
        """P9: retention overtook a cursor; the record behind the gap must not hide that."""
        cluster.put(Topic.SUBMISSIONS, b"lost")
        cluster.put(Topic.SUBMISSIONS, b"lost")
        cluster.put(Topic.SUBMISSIONS, SUBMISSION)
        cluster.participant.resign()
        cluster.inbound["submissions"][:2] = []
        cluster.fail_over()
        cluster.leader.timers.append(LoseInputs("submissions", 2))
        cluster.leader.timers.append(LoseInputs("commands", 0))
        cluster.settle()
        assert cluster.events(InputsLost) == [InputsLost("submissions", 0, 0, 2)]
        assert cluster.job("bad").status is JobStatus.RUNNING
        assert len(cluster.events(InputsBound)) == 3

    def test_a_loss_that_the_cursor_has_passed_is_none(self, cluster: ScriptedCluster) -> None:
        cluster.submit(graph(vertex("a")))
        count = len(cluster.log)
        cluster.timer(LoseInputs("submissions", 1), LoseInputs("submissions", 0))
        assert len(cluster.log) == count

    @pytest.mark.rule("P6")
    def test_offsets_may_be_skipped_but_not_repeated(self, cluster: ScriptedCluster) -> None:
        """A read-committed reader never sees aborted records and markers."""
        cluster.inbound["commands"] = []
        cluster.put(Topic.COMMANDS, b"a")
        record = cluster.inbound["commands"][0]
        record.offset = 7
        cluster.participant.intake.inboxes["commands"].last_offset = -1
        cluster.settle()
        assert cluster.master.requests.cursors["commands"].next_offset == 8
