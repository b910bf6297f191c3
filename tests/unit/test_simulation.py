"""The simulation: a fixed set of seeds holds every invariant, runs repeat bit for bit, and the command says what it found."""

import functools
import gc
import json
import logging
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from eventflink.events.codec import PayloadCodec
from eventflink.events.inputs import Heartbeat
from eventflink.events.log_events import TaskManagerLost
from eventflink.events.seal import NO_SEALS, Seals
from eventflink.events.topics import Topic
from eventflink.processes.file_lock import FileLock
from eventflink.testing.simulation.broker import BrokerRecord
from eventflink.testing.simulation.scheduler import MILLISECOND, Scheduler
from eventflink.testing.simulation.violations import ViolationFound
from tests.simulation import __main__ as simulate_command
from tests.simulation.heartbeats_check import HeartbeatsCheck
from tests.simulation.run import RunResult, simulate, simulate_many
from tests.simulation.variations import Lifecycles
from tests.unit.simulation_mutations import MUTATIONS

pytestmark = pytest.mark.slow
SEEDS = range(25)
SOAK_SEEDS = range(int(os.environ.get("SOAK_SEED", "0")), int(os.environ.get("SOAK_SEED", "0")) + int(os.environ.get("SOAK_SEEDS", "400")))
STREAM_SEEDS = (8, 10, 57, 64)
_DIGESTS = "from tests.simulation.run import simulate; print([simulate(s).transcript_digest for s in (3, 8)])"


@pytest.fixture(scope="session")
def run_of(shared_directory: Path) -> Callable[[int], RunResult]:
    """Return a run with its transcript, by its seed: several tests look at the same one, in any process of this run of the tests."""
    directory = shared_directory / "simulated-runs"
    directory.mkdir(exist_ok=True)

    @functools.cache
    def run(seed: int) -> RunResult:
        with FileLock(directory / f"{seed}.lock", timeout_s=300.0):
            path = directory / f"{seed}.pickle"
            if not path.exists():
                path.write_bytes(pickle.dumps(simulate(seed, with_transcript=True)))
            result: RunResult = pickle.loads(path.read_bytes())
        return result

    return run


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Runs in this process silence what the real code logs, and let garbage lie."""
    disabled, thresholds = logging.root.manager.disable, gc.get_threshold()
    yield
    logging.disable(disabled)
    gc.set_threshold(*thresholds)


def test_a_fixed_set_of_seeds_holds_every_invariant(run_of: Callable[[int], RunResult]) -> None:
    results = [run_of(seed) for seed in SEEDS]
    broken = [f"seed {r.seed} breaks {r.invariant}: {r.message}" for r in results if r.invariant]
    assert not broken
    assert [r.seed for r in results] == list(SEEDS)
    # What is simulated is worth it: leaders change, jobs run, and some TaskExecutor sleeps past its fence.
    assert sum(r.leaderships for r in results) > 2 * len(SEEDS)
    assert sum(r.jobs for r in results) > 3 * len(SEEDS)
    assert sum(r.log_records for r in results) > 50 * len(SEEDS)


@pytest.mark.soak("tests.simulation", "eventflink.testing.simulation", "eventflink.taskexecutor.protocol", "eventflink.snapshots")
@pytest.mark.timeout(10 * len(SOAK_SEEDS))
def test_seeds_that_were_never_run_hold_every_invariant() -> None:
    assert [f"seed {r.seed} breaks {r.invariant}: {r.message}" for r in simulate_many(SOAK_SEEDS, 1) if r.invariant] == []


def test_a_loss_is_held_against_the_newest_heartbeats_alone_where_copies_cannot_pass_for_them() -> None:
    """A heartbeat that was overtaken or copied arrives late: a leader that can tell does not count it."""

    def check(seals: Seals) -> None:
        scheduler, codec = Scheduler(), PayloadCodec("HeartbeatEnvelope", seal=seals.of(Topic.HEARTBEATS))
        heartbeats = HeartbeatsCheck(scheduler, 1_000, 500, 0, seals)
        for now_ms, sequence in ((500, 2), (900, 1)):
            scheduler.now_us = now_ms * MILLISECOND
            value = codec.encode(Heartbeat("tm-1", "tm-1.1", sequence, 0, 2))
            heartbeats.on_heartbeat(BrokerRecord(sequence, 0, None, value))
        scheduler.now_us = 1_600 * MILLISECOND
        heartbeats.on_lost(TaskManagerLost("tm-1", "tm-1.1", "no heartbeat for 1100 ms"), 7)

    check(Seals((b"a secret of the cluster, 32 bytes",)))
    with pytest.raises(ViolationFound, match="at most 700 ms apart"):
        check(NO_SEALS)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(671, id="a snapshot of a log that lost its end"),
        pytest.param(1927, id="a batch that is done and not begun"),
        pytest.param(3485, id="a grant behind a loss that its candidate had not noticed"),
        pytest.param(8668, id="a forged heartbeat of the epoch before"),
        pytest.param(6519, id="a confirmation that is lost, of a snapshot before which the log was trimmed"),
        pytest.param(3107, id="a loss that is looked at between the longest back-offs"),
        pytest.param(40348, id="leaders that hang one after the other, and one between them that cannot read submissions"),
        pytest.param(48034, id="jobs that time out on two slots and start again, one after the other"),
        pytest.param(31765, id="a loss that a bid hides from one that is restarted, in a cluster without a secret"),
    ],
)
def test_what_a_run_once_got_wrong_it_gets_right(seed: int) -> None:
    assert not simulate(seed).invariant


def test_runs_suspend_jobs_and_shut_clusters_down_and_all_of_it_goes_on(run_of: Callable[[int], RunResult]) -> None:
    """In spite of the faults: what was suspended has a second JobMaster, and a cluster that has stopped has started again."""
    living = [seed for seed in SEEDS if Lifecycles(seed).has_orders]
    runs = [run_of(seed).transcript for seed in living]
    text = "\n".join(line for run in runs for line in run if " accepted " in line)
    assert text.count(" JobMasterStopped ") > 0
    assert text.count(" ClusterStopped ") == text.count(" ClusterStarted ") > 0


def test_streams_meet_all_that_they_are_protected_from(run_of: Callable[[int], RunResult]) -> None:
    text = "\n".join(line for seed in STREAM_SEEDS for line in run_of(seed).transcript)
    for met in (
        "has committed the records",
        "fails: SinkFenced",
        "fails: CheckpointLost",
        "the process of foreachBatch exited",
        "its Spark is gone",
        "its Spark stands still",
        "nobody looks after what the TaskExecutor leaves",
        "cannot be told to end",
        "has read everything",
        "releases ResumeStream",
        "releases FinishStream",
        "begins in a savepoint",
    ):
        assert met in text


def test_a_run_repeats_bit_for_bit_in_other_processes_with_other_hash_seeds(run_of: Callable[[int], RunResult]) -> None:
    here = [run_of(seed).transcript_digest for seed in (3, 8)]
    assert [simulate(seed).transcript_digest for seed in (3, 8)] == here
    for hash_seed in ("1", "77"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        done = subprocess.run([sys.executable, "-c", _DIGESTS], env=environment, capture_output=True, text=True, timeout=120, check=True)
        assert done.stdout.strip() == str(here)


def test_no_task_fails_of_itself_once_the_faults_have_ended(run_of: Callable[[int], RunResult]) -> None:
    """A job that has only bad luck would come to rest in no time that can be named."""
    started, failed = set[tuple[int, str]](), set[tuple[int, str]]()
    for seed in range(12):
        transcript = run_of(seed).transcript
        faults_end = next(number for number, line in enumerate(transcript) if "the faults end" in line)
        for line in transcript[faults_end:]:
            if found := re.search(r" launches (\S+)$", line):
                started.add((seed, found[1]))
            failed |= {(seed, attempt) for attempt in re.findall(r"TaskFailed (\S+) (?:ValueError|InputLost|SIGKILL)", line)}
    assert len(started) > 20
    assert not started & failed


def test_another_seed_is_another_run(run_of: Callable[[int], RunResult]) -> None:
    assert run_of(3).transcript_digest != run_of(4).transcript_digest


def test_the_command_prints_a_transcript_that_names_time_actor_epoch_and_offset() -> None:
    done = CliRunner().invoke(simulate_command.simulation, ["--first-seed", "8", "--seeds", "1", "--transcript"])
    assert done.exit_code == 0
    assert "seed 8 holds" in done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) > 100
    assert any("log@0 accepted epoch=1 sequence=0" in line and "LeadershipGranted" in line for line in lines)
    assert all(float(line.split()[0]) >= 0 for line in lines)


def test_a_transcript_of_many_seeds_is_refused() -> None:
    done = CliRunner().invoke(simulate_command.simulation, ["--seeds", "2", "--transcript"], standalone_mode=False)
    assert done.exception is not None
    assert "--seeds 1" in str(done.exception)


def test_a_violation_is_told_with_its_seed_its_invariant_and_the_command_that_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # In one process: a mutation does not reach the workers.
    monkeypatch.setattr(simulate_command, "simulate_many", lambda seeds, _workers: map(simulate, seeds))
    with MUTATIONS["effects_leave_early"].applied():
        done = CliRunner().invoke(simulate_command.simulation, ["--first-seed", "7", "--seeds", "2", "--json"])
    assert done.exit_code == 1
    assert "seed 7 breaks EFFECT_OF_ACCEPTED" in done.stderr
    assert "python -m tests.simulation --first-seed 7 --seeds 1 --transcript" in done.stderr
    document = json.loads(done.stdout)
    assert [v["seed"] for v in document["violations"]] == [7, 8]
    assert document["violations"][0]["invariant"] == "EFFECT_OF_ACCEPTED"


def test_workers_find_what_one_process_finds(run_of: Callable[[int], RunResult]) -> None:
    alone = [_short(run_of(seed)) for seed in range(4)]
    assert [_short(r) for r in simulate_many(range(4), 2)] == alone


def _short(result: RunResult) -> tuple[int, str, str]:
    return result.seed, result.invariant, result.transcript_digest
