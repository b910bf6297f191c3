"""The trace of submissions: legs and costs are what the stamps, the records and the processor times say, and nothing is lost of them."""

import contextlib
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.process_cpu import CLIENT, CpuMeter, CpuNotMeasured, CpuReading
from benchmarks.submit import SubmittedJob
from benchmarks.submit_trace import FLOOR, LEADER, Trial, compare
from benchmarks.trace_legs import DELIVERY, TO_REPLY, Evidence, KafkaRecord, Moment, TraceIncomplete, floor_timelines, legs
from eventflink.events.topics import Topic
from eventflink.processes.trace import TRACE_VARIABLE, Stamp, read_stamps

MS = 1_000_000
CLOCK_NS = 5_000 * MS
"""What the broker's clock is ahead."""


def record(offset: int, at_ms: int, key: str = "a") -> KafkaRecord:
    return KafkaRecord(offset, at_ms + 5_000, key, b"")


def evidence(stamps: list[Stamp], log: list[KafkaRecord]) -> Evidence:
    records = {Topic.SUBMISSIONS: [record(0, 2)], Topic.LOG: log, Topic.REPLIES: [record(0, 9)]}
    return Evidence(records=records, leader=stamps, task_executor=(), clock_ns=CLOCK_NS)


STAMPS = [
    Stamp("received", Topic.SUBMISSIONS, "", 0, 3 * MS, 100 * MS),
    Stamp("produced", Topic.LOG, "", -1, 5 * MS, 101 * MS),
    Stamp("delivered", Topic.LOG, "", 0, 6 * MS, 102 * MS),
    Stamp("received", Topic.LOG, "", 0, 8 * MS, 103 * MS),
    Stamp("produced", Topic.REPLIES, "a", -1, 9 * MS, 105 * MS),
]


def test_the_legs_of_a_way_follow_each_other_without_a_gap() -> None:
    [way] = floor_timelines(evidence(STAMPS, [record(0, 6)])).values()
    found = legs(TO_REPLY, [way | {"sent": Moment(1 * MS, CLIENT), "answered": Moment(11 * MS, CLIENT)}], with_cpu=True)
    assert [(leg.start, leg.end) for leg in found] == list(itertools.pairwise(TO_REPLY))
    assert sum(leg.mean_ms for leg in found) == pytest.approx(10)
    assert {leg.end: leg.mean_ms for leg in found}["submission in Kafka"] == 1.5  # In the middle of its millisecond.
    assert {leg.end: leg.cpu_ms for leg in found if leg.cpu_ms is not None} == {"deciding": 0, "decided": 1, "reply released": 2}
    assert [leg.mean_ms for leg in legs(DELIVERY, [way], with_cpu=False)] == [1, 2]


def test_a_leg_that_no_job_has_is_left_out() -> None:
    way = {"sent": Moment(0, CLIENT), "answered": Moment(MS, CLIENT)}
    assert legs(TO_REPLY, [way], with_cpu=True) == []
    assert [leg.jobs for leg in legs(("sent", "answered"), [way, {}], with_cpu=True)] == [1]


def test_a_leg_says_how_long_most_wait_and_how_long_the_last() -> None:
    ways = [{"sent": Moment(0, CLIENT), "answered": Moment(wait * MS, CLIENT)} for wait in range(1, 201)]
    [leg] = legs(("sent", "answered"), ways, with_cpu=False)
    assert (leg.mean_ms, leg.median_ms, leg.p99_ms, leg.place) == (100.5, 100.5, 199, CLIENT)


def test_stamps_that_do_not_fit_the_log_are_not_taken_for_others() -> None:
    with pytest.raises(TraceIncomplete, match="the leader produced 1 records to 'log', and 2 are there"):
        floor_timelines(evidence(STAMPS, [record(0, 6), record(1, 7)]))


def trial(accepted_ms: list[float], cpu_s: float) -> Trial:
    made = Trial()
    before = CpuReading(10.0, {LEADER: 1.0, FLOOR: 0.0}, 3.0, {LEADER: 5.0})
    after = CpuReading(12.0, {LEADER: 1.0 + cpu_s, FLOOR: 0.1}, 4.0, {LEADER: 5.3})
    made.add([SubmittedJob(f"job-{n}", n, n + wait / 1000) for n, wait in enumerate(accepted_ms)], before, after)
    return made


def test_a_cluster_is_compared_with_the_floor_of_the_same_round() -> None:
    cluster, floor = trial([20, 30, 40], 0.6), trial([10, 10, 10], 0.0)
    ways: dict[str, dict[str, Moment]] = {job.job_id: {} for job in cluster.jobs}
    figures = compare(1, cluster, floor, {LEADER: 0.15, FLOOR: 0.0}, ways, ways)
    assert figures.accepted_median_ratio.median == 3
    assert figures.accepted_p99_ratio.median == 4
    assert figures.finished_ms is None
    # 0.6 s for three jobs; 0.3 s of them a leader that does nothing would have used, too.
    assert (figures.cpu[LEADER].gross_ms, figures.cpu[LEADER].net_ms, figures.cpu[LEADER].waited_ms) == (200, 100, 100)
    assert figures.floor_cpu[FLOOR].waited_ms is None
    assert cluster.others_s == pytest.approx(1.0 - 0.6 - 0.1)


def test_a_thread_that_another_one_keeps_from_its_core_waits_and_one_that_sleeps_does_not() -> None:
    [core, *_] = sorted(os.sched_getaffinity(0))
    program = f"import os\nos.sched_setaffinity(0, [{core}])\nprint(flush=True)\nwhile True: pass"
    with contextlib.ExitStack() as stack:
        busy = [stack.enter_context(subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)) for _ in range(2)]
        asleep = stack.enter_context(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
        for process in busy:
            stack.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()
        meter = CpuMeter({LEADER: busy[0].pid, FLOOR: asleep.pid})
        before, deadline_s = meter.read(), time.monotonic() + 30
        while (after := meter.read()).seconds[LEADER] < before.seconds[LEADER] + 0.2 and time.monotonic() < deadline_s:
            time.sleep(0.05)
        asleep.communicate(b"\n")
    assert after.waited_s[LEADER] - before.waited_s[LEADER] > 0.05
    assert after.waited_s[FLOOR] - before.waited_s[FLOOR] < after.waited_s[LEADER] - before.waited_s[LEADER]


BURN = "import time\nwhile time.process_time() < 0.3: pass\n"


def test_what_a_process_used_that_has_ended_is_not_lost() -> None:
    program = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}], check=True)\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        reading = CpuMeter({LEADER: parent.pid}).read()
        parent.communicate(b"\n")
    assert reading.seconds[LEADER] >= 0.25  # The kernel tells hundredths, rounded down.
    assert reading.since(reading) == {CLIENT: 0.0, LEADER: 0.0}
    with pytest.raises(CpuNotMeasured, match=f"process {parent.pid} has ended"):
        CpuMeter({LEADER: parent.pid}).read()


@pytest.mark.parametrize("is_traced", [True, False])
def test_a_process_leaves_stamps_only_where_they_are_asked_for(tmp_path: Path, *, is_traced: bool) -> None:
    began_ns = time.monotonic_ns()
    environment = {**os.environ, TRACE_VARIABLE: str(tmp_path)} if is_traced else os.environ
    program = "import os\nfrom eventflink.processes.trace import stamp\nstamp('received', 'log', offset=7)\nprint(os.getpid())"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True, text=True)
    if not is_traced:
        assert list(tmp_path.iterdir()) == []
        return
    [stamp] = read_stamps(tmp_path, int(done.stdout))
    assert stamp[:4] == ("received", "log", "", 7)
    assert began_ns < stamp.at_ns < time.monotonic_ns()
    assert stamp.cpu_ns > 0


def test_a_tasks_process_imports_nothing_more_for_a_task_of_the_benchmarks() -> None:
    """What it imported would be measured with each job, as if the cluster took it."""
    program = (
        "import sys\nimport eventflink.taskexecutor.fork_server_main\nbefore = set(sys.modules)\n"
        "import eventflink.testing.tasks\nprint(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["eventflink.testing", "eventflink.testing.tasks"]
