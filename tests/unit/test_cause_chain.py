"""Why a thing is as it is: the chain leads back to the request and who made it, and what waits says for what."""

import difflib
import re
from collections.abc import Sequence
from random import Random

import pytest

from eventflink.audit import NothingKnown, cause_chain
from eventflink.audit.subjects import SubjectFinder, SubjectType
from eventflink.documents.explanation import Explanation, StepOfChain
from eventflink.events.inputs import TaskManagerDeath
from eventflink.events.wording import iso_time
from eventflink.model.attempts import FailureCause
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import ExecutionState
from tests.support.asked_log import storied_cluster, why
from tests.support.cluster import START_MS, ScriptedCluster, deployments, fixed_delay, graph, new_fold, sharing, tasks, vertex
from tests.support.scenarios import busy_cluster, put_schedule, restarting_cluster


@pytest.fixture(scope="module")
def busy() -> ScriptedCluster:
    return busy_cluster()


@pytest.fixture(scope="module")
def storied() -> ScriptedCluster:
    return storied_cluster()


def names(step: StepOfChain) -> list[str]:
    return [said.split()[0] for said in step.events]


def told(explanation: Explanation) -> list[tuple[str, list[str]]]:
    return [(step.cause, names(step)) for step in explanation.chain]


def test_a_failed_job_is_led_back_to_its_request_through_the_attempt_that_failed(storied: ScriptedCluster) -> None:
    explanation = why(storied, "caused")
    assert explanation.type == SubjectType.JOB
    assert explanation.state == "FAILED"
    assert explanation.cause == FailureCause("KeyError", "no 'x'", "Traceback")
    assert explanation.facts["root_failure"] == "caused/a[0]#1"
    submitted, failed = told(explanation)
    assert submitted[0].startswith("submissions@")
    assert submitted[0].endswith("by test (declared)")
    assert submitted[1][:3] == ["RequestAccepted", "JobSubmitted", "JobMasterStarted"]
    assert submitted[1][-1] == "TaskDeployed"
    assert failed[0].startswith("taskmanagers@")
    assert failed[1] == ["SlotOffered", "TaskFailed", "JobStatusChanged", "SlotFreed", "JobStatusChanged", "JobResultStored"]


def test_a_job_that_the_masters_have_forgotten_is_still_explained(storied: ScriptedCluster) -> None:
    assert "missing" not in storied.master.dispatcher.jobs
    explanation = why(storied, "missing")
    assert explanation.state == "FAILED"
    assert explanation.cause is not None
    assert explanation.cause.failure_type == "AttemptMissing"
    assert any("TaskManagerReportReconciled" in said for _, said in told(explanation))
    assert told(explanation)[-1][1] == ["JobEvicted"]


def test_only_the_root_of_a_failure_is_told_among_many_tasks(busy: ScriptedCluster) -> None:
    said = "\n".join(event for step in why(busy, "failing").chain for event in step.events)
    assert "TaskFailed failing/a[0]#1 ValueError: no such column" in said
    assert "failing/a[1]" not in said


def test_a_cancelled_job_names_who_asked(busy: ScriptedCluster) -> None:
    explanation = why(busy, "cancelling")
    assert explanation.state == "CANCELLING"
    assert [wait.why for wait in explanation.waits] == ["tm1 has not reported its end yet"]
    assert told(explanation)[-1] == ("commands@0 by test (declared)", ["RequestAccepted", "JobCancellationRequested", "JobStatusChanged"])


def test_a_task_without_a_slot_says_why_since_when_and_its_place(busy: ScriptedCluster) -> None:
    explanation = why(busy, "waiting/a[8]")
    [wait] = explanation.waits
    assert wait.why == "no slot: all 9 registered slots are taken, 4 of them by this job; its turn is 7 of 7"
    assert wait.since in (iso_time(START_MS), iso_time(START_MS + 1))
    events = ["RequestAccepted", "JobSubmitted", "TaskScheduled", "SlotRequested", "SlotRequestDeferred"]
    [(cause, told_events)] = told(explanation)
    assert re.fullmatch(r"submissions@\d+ by test \(declared\)", cause)
    assert told_events == events
    allocation_id = explanation.facts["allocation_id"]
    requested = why(busy, allocation_id)
    assert (requested.state, requested.waits) == ("REQUESTED", explanation.waits)


def test_a_job_that_waits_says_in_its_chain_why_for_each_profile(busy: ScriptedCluster) -> None:
    explanation = why(busy, "demanding")
    deferred = [line for step in explanation.chain for line in step.events if line.startswith("SlotRequestDeferred")]
    assert deferred == [
        "SlotRequestDeferred demanding 2 requests: no free slot",
        "SlotRequestDeferred demanding 1 request for task heap 512m: no free slot",
        "SlotRequestDeferred demanding 2 requests for managed 1t: no fitting slot",
    ]
    of_task = [line for step in why(busy, "demanding/c[1]").chain for line in step.events if "Deferred" in line]
    assert of_task == deferred[2:]
    waits = [wait.why for wait in explanation.waits]
    [no_room] = [why for why in waits if why.endswith("; its turn is 2 of 2")]
    assert no_room.startswith("no slot: none of the 9 registered slots has room for managed 1t (")


def test_a_blocked_task_manager_says_by_whom_and_why() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", 1, profile=ResourceProfile(500))
    cluster.block("tm", "its disk is full")
    explanation = why(cluster, "tm")
    facts = {name: explanation.facts[name] for name in ("slot_profile", "blocked", "blocked_by", "blocked_until")}
    assert facts == {"slot_profile": "cpu 0.5", "blocked": "its disk is full", "blocked_by": "test (declared)", "blocked_until": None}
    assert [name for _, events in told(explanation) for name in events] == ["TaskManagerRegistered", "TaskManagerBlocked"]


def test_a_cluster_without_task_managers_says_so() -> None:
    cluster = ScriptedCluster()
    cluster.submit(graph(vertex("a")))
    [wait] = why(cluster, "job").waits
    assert wait.why == "no slot: no TaskManager is registered; its turn is 1 of 1"


def test_a_task_without_inputs_names_whom_it_waits_for(busy: ScriptedCluster) -> None:
    assert [w.why for w in why(busy, "running/b[0]").waits] == ["its inputs are not complete: a (2 of 2 subtasks)"]


def test_other_waits_are_told(busy: ScriptedCluster) -> None:
    assert "it will start again at 2027-01-15T08:00:00.501" in why(busy, "restarting").waits[0].why
    assert why(busy, "dirty").waits[0].what == "the clean-up"
    assert why(busy, "upload").waits[0].why == "tm1 has not uploaded it yet"
    assert why(busy, "waiting/a[0]").waits[0].why.endswith("has not confirmed the slot yet")
    many = why(busy, "waiting").waits
    assert (len(many), many[-1].what) == (6, "4 more tasks")


def test_a_restart_of_many_tells_of_each_what_it_waits_for() -> None:
    cluster = restarting_cluster()
    job = why(cluster, "rewriting")
    assert job.facts["restart_strategy"] == "exponential-delay"
    assert job.facts["last_failure"].startswith("b[1]#1: restart 1 of 4 tasks after ")
    [restart] = [e for step in job.chain for e in step.events if e.startswith("RestartScheduled")]
    assert restart.endswith(": 4 tasks (region), lost: a[0]")
    writer = why(cluster, "rewriting/a[0]")
    assert "it will start again at" in writer.waits[0].why
    assert "RestartScheduled" in names(writer.chain[-1]), "it had finished, and another one's failure restarts it"
    reader = why(cluster, "rewriting/b[0]")
    assert reader.waits[0].why == "tm1 has not reported its end yet"
    assert names(reader.chain[-1]) == ["RestartScheduled", "TaskCancellationRequested"]
    whole = why(cluster, "whole/a[0]")
    assert whole.waits[0].why.endswith(", when all tasks of the job have ended")
    assert why(cluster, "whole").facts["failover_strategy"] == "full"


def test_what_runs_waits_for_nothing() -> None:
    cluster = ScriptedCluster()
    cluster.register()
    [deployment] = deployments(cluster.submit(graph(vertex("a"))))
    cluster.report(deployment, ExecutionState.RUNNING)
    explanation = why(cluster, "job/a[0]")
    assert (explanation.state, explanation.waits) == ("RUNNING", [])
    assert explanation.facts["task_manager_id"] == "tm"


def test_a_restarted_subtask_is_told_with_all_its_attempts_or_with_one(storied: ScriptedCluster) -> None:
    whole = why(storied, "restarting/a[0]")
    assert whole.state == "FINISHED"
    assert [names(step)[-1] for step in whole.chain] == ["TaskDeployed", "SlotFreed", "TaskDeployed", "SlotFreed"]
    first, second = why(storied, "restarting/a[0]#1"), why(storied, "restarting/a[0]#2")
    assert first.cause == FailureCause("ValueError", "no such column")
    assert [step.offset for step in first.chain] == [step.offset for step in whole.chain[:2]]
    said = [event for step in second.chain for event in step.events]
    assert "TaskFailed restarting/a[0]#1 ValueError: no such column" in said  # Why there is a second attempt.
    assert not any("allocation-1 " in f"{event} " for event in said)


def test_an_attempt_whose_task_manager_died_names_the_death() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm9", slots=4)
    effects = cluster.submit(graph(vertex("a", 12), restart_strategy=fixed_delay(20, 0)), job_id="victim")
    lost = tasks([d for d in deployments(effects) if d.task_manager_id == "tm9"])[0]
    cluster.register("tm9", slots=4, instance="2")
    index = lost.subtask_index
    said = [event for step in why(cluster, f"victim/a[{index}]#1").chain for event in step.events]
    assert "TaskManagerLost tm9 instance tm9-1: replaced by its new instance tm9-2" in said
    assert any(event.startswith(f"TaskFailed victim/a[{index}]#1 TaskManagerLost") for event in said)


def test_a_task_whose_input_came_late_names_the_task_that_completed_it(storied: ScriptedCluster) -> None:
    steps = why(storied, "late/b[0]").chain
    assert steps[1].events[:2] == (
        "TaskFinished late/a[2]#1 default=/outputs/late/a/2/1/default (1 rows in 1 file)",
        "TaskScheduled late/b[0]#1",
    )


def test_a_request_that_waited_names_what_made_its_slot_free() -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=1)
    first = cluster.submit(graph(vertex("a")), job_id="first")
    cluster.submit(graph(vertex("a")), job_id="second")
    cluster.report(deployments(first)[0], ExecutionState.FINISHED)
    [_, got] = why(cluster, "second/a[0]").chain
    assert names(got) == ["SlotFreed", "SlotAllocated", "TaskDeployed"]
    assert got.events[0] == "SlotFreed allocation-1"


def test_a_follow_up_is_led_back_to_the_decision_that_it_follows_from() -> None:
    """A large job is scheduled in several decisions; only the first has the request for its cause."""
    cluster = ScriptedCluster(check_digests=False)
    cluster.register(slots=1000)
    cluster.submit(graph(vertex("a", 900)))
    explanation = why(cluster, "job/a[899]")
    steps = {step.offset: step for step in explanation.chain}
    scheduled = next(step for step in steps.values() if "TaskScheduled job/a[899]#1" in step.events)
    assert scheduled.cause.startswith("follow-up schedule tasks of log@")
    assert scheduled.actor == ""
    step, hops = scheduled, 0
    while step.follows_from:
        assert step.follows_from[0] < step.offset
        step, hops = steps[step.follows_from[0]], hops + 1
    assert hops >= 1
    assert step.actor == "test (declared)"
    assert step.cause == "submissions@0 by test (declared)"


def test_a_task_manager_and_its_instances_are_told_by_their_comings_and_goings(storied: ScriptedCluster) -> None:
    assert [said for _, said in told(why(storied, "tm2"))] == [
        ["TaskManagerRegistered"],
        ["TaskManagerLost"],
        ["TaskManagerRegistered"],
    ]
    assert why(storied, "tm2").facts["instance_id"] == "tm2-2"
    gone = why(storied, "tm2-1")
    assert (gone.type, gone.state) == (SubjectType.INSTANCE, "gone")
    assert gone.facts["reason"] == "TaskManagerLost: exit code 137"
    assert len(gone.chain) == 2


def test_a_request_is_told_with_its_answer_and_its_repetitions(storied: ScriptedCluster) -> None:
    refused = why(storied, "duplicate")
    assert (refused.type, refused.state) == (SubjectType.REQUEST, "refused")
    assert refused.cause is not None
    assert refused.cause.failure_type == "DuplicateJobSubmission"
    assert [said for _, said in told(refused)] == [["RequestRejected"], ["RequestRepeated"]]
    assert why(storied, "submissions-0-1").state == "accepted"


def test_a_refused_submission_is_found_by_the_job_id_that_it_wanted() -> None:
    cluster = ScriptedCluster()
    cluster.submit({"name": "bad", "vertices": []}, job_id="never", request_id="r")
    explanation = why(cluster, "never")
    assert (explanation.type, explanation.state) == (SubjectType.REQUEST, "refused")


def test_the_beginning_of_a_job_id_is_enough_where_it_is_clear(busy: ScriptedCluster) -> None:
    assert why(busy, "wait").id == "waiting"
    assert why(busy, "wait/a[8]").id == "waiting/a[8]"
    with pytest.raises(NothingKnown, match="'done' is ambiguous: 4 job ids begin with it, such as done0"):
        why(busy, "done")


def test_the_id_of_a_schedule_with_which_those_of_its_jobs_begin_is_sent_to_the_schedule() -> None:
    cluster = ScriptedCluster()
    put_schedule(cluster, "nightly", cron="* * * * *")
    for job_id in ("nightly-1", "nightly-2"):
        cluster.submit(graph(vertex("a")), job_id=job_id)
    with pytest.raises(NothingKnown, match="'nightly' is a schedule: 'eventflink schedule show nightly' says what it started"):
        why(cluster, "nightly")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the text is empty"),
        ("runing", "nearest: running"),
        ("allocation-99", "nearest: allocation-9"),
        ("tm1-9", "nearest: tm1-1"),
        ("failing/x[0]", "vertex not found: 'x' in job 'failing'; it has a"),
        ("failing/a[2]", "subtask not found: 2"),
        ("failing/a[0]#2", "attempt not found: 2"),
        ("failing/a[0]#0", "attempt not found: 0"),
        ("ʞ", "id not found in the log: 'ʞ'"),
    ],
)
def test_what_nothing_has_is_said_with_the_nearest(busy: ScriptedCluster, text: str, said: str) -> None:
    with pytest.raises(NothingKnown, match=said.replace("[", r"\[")):
        why(busy, text)


def test_of_many_ids_few_are_compared_letter_by_letter_and_one_mistake_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    random, compared, compare = Random(1), list[int](), difflib.get_close_matches
    ids = [f"{random.getrandbits(128):032x}" for _ in range(20_000)]

    def counted(text: str, known: Sequence[str], n: int, cutoff: float) -> list[str]:
        compared.append(len(known))
        return compare(text, known, n, cutoff)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    for meant, place in ((ids[0], 0), (ids[9_999], 16), (ids[-1], 31)):
        with pytest.raises(NothingKnown, match=f"the nearest: {meant}"):
            SubjectFinder(f"{meant[:place]}x{meant[place + 1 :]}").resolve_job(new_fold().master, ids, 0)
    assert max(compared) <= 300


def test_a_long_chain_is_cut_in_the_middle_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cause_chain, "KEPT_OLDEST", 2)
    monkeypatch.setattr(cause_chain, "KEPT_NEWEST", 3)
    cluster = ScriptedCluster()
    cluster.register()
    effects = cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(20, 0)))
    for _ in range(6):
        cluster.report(deployments(effects)[0], ExecutionState.FAILED)
        effects = cluster.pass_time(1)
    explanation = why(cluster, "job")
    assert (len(explanation.chain), explanation.omitted) == (5, 13 - 5)
    assert names(explanation.chain[0])[0] == "RequestAccepted"
    assert "RegionRestarted job/a[0]#7" in explanation.chain[-1].events


def test_a_task_that_joined_others_in_a_slot_names_whose_loss_ended_it_and_tells_nothing_of_the_others() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=1)
    cluster.submit(graph(sharing("a"), sharing("b"), restart_strategy=fixed_delay(5, 60_000)))
    standing = why(cluster, "job/b[0]")
    assert (standing.facts["slot_sharing_group"], standing.facts["shares_its_slot_with"]) == ("shared", "job/a[0]#1")
    assert [wait.why for wait in standing.waits] == ["tm has not confirmed the slot yet"]
    cluster.say(TaskManagerDeath("tm", "tm-1", "killed"))
    chain = why(cluster, "job/b[0]#1").chain
    said = [event for step in chain for event in step.events]
    assert "SlotShared job/b[0]#1 allocation-1" in said
    assert "TaskManagerLost tm instance tm-1: killed" in said
    assert not [event for event in said if event.startswith(("TaskFailed job/a", "SlotShareReturned job/a", "TaskDeployed job/a"))]


def test_a_task_that_waits_beside_others_of_its_group_says_why() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=1)
    cluster.submit(graph(sharing("a", 2), sharing("b")))
    [wait] = why(cluster, "job/a[1]").waits
    assert wait.why == "no slot: the only registered slot is taken, by this job; its turn is 1 of 1"
    assert why(cluster, "tm").facts["attempts"] == {"allocation-1": "job/a[0]#1, job/b[0]#1"}
