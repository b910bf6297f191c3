"""What the benchmarks of streams count and compute: by number, without a record standing in for another, and from commit to commit."""

from benchmarks.process_cpu import CLIENT, SPARK, SPARK_PYTHON, TASKS
from benchmarks.stream_counts import (
    Arrival,
    Counts,
    SteadyBatches,
    batches_repeated,
    count_records,
    longest_gap_ms,
    steady_batches,
)
from benchmarks.stream_faults import RECORDS_PER_S, has_caught_up
from benchmarks.stream_throughput import ALL, BATCHES, Trial, summarise

MS = 1_000_000
PAUSE_FROM_MS, PAUSE_TO_MS = 400, 900


def test_a_repeated_record_does_not_stand_in_for_a_missing_one() -> None:
    assert count_records(4, [0, 1, 1, 3]) == Counts(fed=4, committed=4, repeated=1, missing=1)
    assert not count_records(4, [0, 1, 1, 3]).is_exact
    assert count_records(3, [2, 0, 1]).is_exact


def test_a_record_that_was_never_fed_counts_as_repeated() -> None:
    assert count_records(2, [0, 1, 7]) == Counts(fed=2, committed=3, repeated=1, missing=0)


def arrivals_with_a_pause() -> list[int]:
    """Return one arrival each 100 ms, but for a pause."""
    return [at_ms * MS for at_ms in range(0, 1_500, 100) if not PAUSE_FROM_MS < at_ms < PAUSE_TO_MS]


def test_a_gap_counts_from_the_last_commit_before_the_kill() -> None:
    assert longest_gap_ms(arrivals_with_a_pause(), 450 * MS, 1_400 * MS) == 500
    assert longest_gap_ms(arrivals_with_a_pause(), 0, 400 * MS) == 100
    assert longest_gap_ms(arrivals_with_a_pause(), 950 * MS, 1_400 * MS) == 100


def test_a_gap_that_has_not_ended_counts_to_the_end() -> None:
    assert longest_gap_ms([0, 100 * MS], 50 * MS, 2_100 * MS) == 2_000
    assert longest_gap_ms([], 0, 300 * MS) == 300


def test_a_latency_is_from_the_feeding_to_the_arrival() -> None:
    assert Arrival(number=1, fed_ns=5 * MS, arrived_ns=17 * MS).latency_ms == 12


def test_the_first_batch_is_not_measured() -> None:
    assert steady_batches({0: 10_000 * MS, 1: 11_000 * MS, 2: 13_000 * MS}) == SteadyBatches(2, 3.0)


def test_batches_of_which_one_was_not_seen_are_not_measured() -> None:
    assert steady_batches({0: 1, 2: 3}) is None
    assert steady_batches({0: 1}) is None
    assert steady_batches({}) is None


def test_a_batch_is_repeated_if_it_had_begun_and_was_not_committed() -> None:
    assert batches_repeated([(-1, -1), (41, 42), (57, 57)]) == 1


def test_a_stream_has_caught_up_when_the_records_of_a_second_are_under_way() -> None:
    second = int(RECORDS_PER_S)
    seen = [Arrival(number, 0, 1) for number in range(10)]
    assert not has_caught_up([], 0)
    assert not has_caught_up([], 5)
    assert has_caught_up(seen, 9 + second)
    assert not has_caught_up(seen, 10 + second)


def trial(seconds: float, client: str) -> Trial:
    return Trial(
        SteadyBatches(BATCHES - 1, seconds),
        wall_s=2 * seconds,
        cpu_s={SPARK: seconds, SPARK_PYTHON: 0.5, TASKS: 0.0, CLIENT: 0.0} | {client: 0.5},
    )


def test_rounds_are_compared_in_pairs_and_each_side_with_its_own_client() -> None:
    rows = 600
    figures = summarise([trial(2.0, TASKS), trial(6.0, TASKS)], [trial(1.0, CLIENT), trial(2.0, CLIENT)], rows, [])
    assert (figures.time_ratio.min, figures.time_ratio.max) == (2.0, 3.0)
    assert (figures.cpu_ratio.min, figures.cpu_ratio.max) == (1.5, 2.333)
    assert figures.job.rows_per_s.max == rows * (BATCHES - 1) / BATCHES / 2.0
    assert figures.plain.cpu_us_per_row[ALL].min == 2.0 * 1e6 / (rows * (BATCHES - 1) / BATCHES)
    assert TASKS in figures.job.cpu_us_per_row
    assert CLIENT in figures.plain.cpu_us_per_row
