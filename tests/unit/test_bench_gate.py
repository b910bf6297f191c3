"""The gate's verdicts: what noise can explain fails nothing, what is beyond it and the tolerance does, and what is missing is said."""

import itertools
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gate import ALL_SERVERS, Comparison, Figure, Kind, Verdict, compare, figures_of
from benchmarks.gate_runs import MEASURED, Commit, NotComparable, Repository, RunFailed, Tree, Trees, alternate

LEADER = Figure(Kind.JOB, "one at a time: leader")
TOLERANCES = dict.fromkeys(Kind, 0.1)


def compared(base: list[float], candidate: list[float], figure: Figure = LEADER) -> Comparison:
    [found] = compare([{figure: value} for value in base], [{figure: value} for value in candidate], TOLERANCES)
    return found


def test_equal_commits_are_the_same() -> None:
    found = compared([10, 10.4, 9.7], [10.1, 9.8, 10.3])
    assert found.verdict is Verdict.SAME
    assert found.ratio is not None
    assert (found.ratio.min, found.ratio.median, found.ratio.max) == (0.942, 1.01, 1.062)


def test_what_is_beyond_the_tolerance_in_every_round_is_worse_or_better() -> None:
    assert compared([10, 10.4, 9.7], [12, 11.8, 12.5]).verdict is Verdict.WORSE
    assert compared([12, 11.8, 12.5], [10, 10.4, 9.7]).verdict is Verdict.BETTER


def test_what_is_more_in_every_round_but_within_the_tolerance_is_the_same() -> None:
    assert compared([10, 10.1, 10.2], [10.8, 10.9, 11]).verdict is Verdict.SAME


def test_medians_far_apart_are_unclear_where_one_round_of_each_says_otherwise() -> None:
    assert compared([10, 10, 15], [14, 14, 14]).verdict is Verdict.UNCLEAR
    assert compared([14, 14, 14], [10, 10, 15]).verdict is Verdict.UNCLEAR


def test_the_order_of_the_rounds_does_not_matter() -> None:
    for order in itertools.permutations([9, 10, 11, 19, 10.5]):
        assert compared([10, 9, 11, 9.5, 18], list(order)).verdict is Verdict.SAME
    for order in itertools.permutations([12, 14, 13, 15]):
        assert compared([10, 11, 9, 10.5], list(order)).verdict is Verdict.WORSE


def test_a_large_part_of_next_to_nothing_is_no_difference() -> None:
    assert compared([0.02, 0.01, 0.02], [0.05, 0.06, 0.05]).verdict is Verdict.SAME
    assert compared([2, 2.1, 2], [20, 25, 22]).verdict is Verdict.WORSE


def test_what_the_ticks_of_the_clock_blur_is_no_difference() -> None:
    """Of few jobs a tick is a large part."""
    for jobs, verdict in ((40, Verdict.SAME), (1_000, Verdict.WORSE)):
        measured = [{**SUBMIT, "concurrent": mode(16, jobs, standby_ms=cost_ms)} for cost_ms in (0.26, 0.51)]
        base, candidate = ([figures_of(each, {})] * 3 for each in measured)
        found = {each.figure: each.verdict for each in compare(base, candidate, TOLERANCES)}
        assert found[Figure(Kind.JOB, "16 in flight: standby")] is verdict


def test_costs_below_nothing_are_compared_without_a_ratio() -> None:
    """What a process would have used without jobs is subtracted: little is left of little, and sometimes less than nothing."""
    found = compared([-0.1, 0.1, 0], [1.5, 1.6, 1.4])
    assert (found.verdict, found.ratio) == (Verdict.WORSE, None)
    assert compared([0, 0, 0], [0, 0, 0]).verdict is Verdict.SAME


def test_a_process_that_only_one_commit_has_is_said_and_fails_nothing() -> None:
    guardian = Figure(Kind.IDLE, "guardian")
    base: list[dict[Figure, float]] = [{LEADER: 10.0}, {LEADER: 10.0}]
    for more in ([{LEADER: 10.0, guardian: 5.0}] * 2, [{LEADER: 10.0, guardian: 5.0}, {LEADER: 10.0}]):
        found = {each.figure: each for each in compare(base, more, TOLERANCES)}
        assert found[LEADER].verdict is Verdict.SAME
        assert (found[guardian].verdict, found[guardian].base, found[guardian].ratio) == (Verdict.MISSING, None, None)
    assert found[guardian].candidate is None  # A round lacks it.


def test_each_kind_of_figure_has_a_tolerance_of_its_own() -> None:
    idle = Figure(Kind.IDLE, "leader")
    base, candidate = [{LEADER: 10.0, idle: 10.0}], [{LEADER: 12.0, idle: 12.0}]
    verdicts = {each.figure: each.verdict for each in compare(base, candidate, TOLERANCES | {Kind.JOB: 0.3})}
    assert verdicts == {LEADER: Verdict.SAME, idle: Verdict.WORSE}


def mode(in_flight: int, jobs: int = 100, **costs_ms: float) -> dict[str, Any]:
    costs = {"client": 4.0, "leader": 4.0, "broker": 4.0} | {name.removesuffix("_ms"): cost_ms for name, cost_ms in costs_ms.items()}
    return {
        "in_flight": in_flight,
        "cpu": {name: {"gross_ms": 100.0, "net_ms": cost_ms} for name, cost_ms in costs.items()},
        "accepted_ms": {"count": jobs},
        "accepted_median_ratio": {"median": 3.0},
    }


SUBMIT: dict[str, Any] = {
    "idle_share": {"client": 0.01, "leader": 0.02, "broker": 0.03, "floor": 0.04},
    "one_at_a_time": mode(1),
    "concurrent": mode(16),
}


def test_the_figures_are_those_of_the_servers_and_their_sums() -> None:
    found = figures_of(SUBMIT, {"replay_cpu_us_per_event": {"median": 40.0}})
    assert found.pop(Figure(Kind.REPLAY, "replay")) == 40
    for in_flight in ("one at a time", "16 in flight"):
        assert found.pop(Figure(Kind.FLOOR, f"{in_flight}: accepted, median")) == 3
        costs = {name: found.pop(Figure(Kind.JOB, f"{in_flight}: {name}")) for name in ("leader", "broker", ALL_SERVERS)}
        assert costs == {"leader": 4, "broker": 4, ALL_SERVERS: 8}
    assert found == {Figure(Kind.IDLE, "leader"): 2, Figure(Kind.IDLE, "broker"): 3, Figure(Kind.IDLE, ALL_SERVERS): pytest.approx(5)}


def test_a_commit_that_did_not_measure_replay_yet_is_compared_by_the_rest() -> None:
    assert not any(figure.kind is Kind.REPLAY for figure in figures_of(SUBMIT, {}))
    with pytest.raises(KeyError):
        figures_of({}, {})


def test_neither_commit_is_always_the_first() -> None:
    order: list[str] = []
    base, candidate = (Tree(Commit(name, ""), Path(name)) for name in ("base", "candidate"))

    def measure(tree: Tree) -> dict[Figure, float]:
        order.append(tree.commit.digest)
        return {LEADER: float(len(order))}

    measured = alternate(base, candidate, 3, measure, lambda _: None)
    assert order == ["base", "candidate", "candidate", "base", "base", "candidate"]
    assert measured == ([{LEADER: 1.0}, {LEADER: 4.0}, {LEADER: 5.0}], [{LEADER: 2.0}, {LEADER: 3.0}, {LEADER: 6.0}])


class Checkout:
    """A repository with one commit on `main`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.git("init", "--quiet", "--initial-branch=main")
        for name in (*MEASURED, "docs"):
            (directory / name).mkdir()
            (directory / name / "file").write_text("1")
        self.commit("first")

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *identity, *arguments], cwd=self.directory, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, message: str) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", f"--message={message}")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_head_is_compared_with_where_it_left_main_and_on_main_with_the_commit_before(checkout: Checkout) -> None:
    repository = Repository(checkout.directory / "docs")
    with pytest.raises(NotComparable, match="give --base"):
        repository.default_base()
    first = checkout.git("rev-parse", "HEAD")
    second = checkout.commit("second")
    assert repository.default_base() == Commit(first, "first")
    checkout.git("checkout", "--quiet", "-b", "branch")
    checkout.commit("third")
    checkout.commit("fourth")
    assert repository.default_base() == Commit(second, "second")


def test_a_commit_that_is_not_there_is_named(checkout: Checkout) -> None:
    for name in ("nowhere", "--all", ""):
        with pytest.raises(NotComparable, match=f"no commit '{name}'"):
            Repository(checkout.directory).commit(name)


def test_a_directory_outside_of_a_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotComparable, match="not in a git checkout"):
        Repository(tmp_path)


def test_only_what_runs_has_to_be_committed(checkout: Checkout) -> None:
    repository = Repository(checkout.directory)
    (checkout.directory / "docs" / "page").write_text("new")
    repository.check_clean()
    (checkout.directory / "schemas" / "file").write_text("2")
    (checkout.directory / "eventflink" / "new").write_text("2")
    with pytest.raises(NotComparable, match="schemas/file, eventflink/new"):
        repository.check_clean()


def test_a_tree_is_what_was_committed(checkout: Checkout, tmp_path_factory: pytest.TempPathFactory) -> None:
    repository = Repository(checkout.directory)
    first = repository.commit("HEAD")
    (checkout.directory / "eventflink" / "file").write_text("2")
    checkout.commit("second")
    tree = tmp_path_factory.mktemp("tree")
    repository.write_tree(first, tree)
    assert {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()} == {f"{name}/file" for name in MEASURED}
    assert (tree / "eventflink" / "file").read_text() == "1"
    assert checkout.git("worktree", "list").count("\n") == 0


PROGRAM = """
import json, os, pathlib, sys
if "--help" in sys.argv:
    sys.exit(print("  --trace   where time goes"))
runs = pathlib.Path(os.environ["TMPDIR"], "runs")
runs.open("a").write("run ")
if runs.read_text().count("run") <= FAILURES:
    sys.exit("the leader was deposed")
print("a remark")
print(json.dumps(SUBMIT))
"""
"""What stands for the benchmarks of a commit: some of its runs fail."""


@pytest.mark.parametrize("package", ["benchmarks", "eventflink/cli"])
@pytest.mark.parametrize("failures", [0, 1, 2])
def test_a_run_that_fails_once_is_repeated_and_one_that_fails_again_is_told(checkout: Checkout, failures: int, package: str) -> None:
    """Commits without `benchmarks/` have their benchmarks as commands of `eventflink`."""
    program = PROGRAM.replace("FAILURES", str(failures)).replace("SUBMIT", repr({"benchmark": "any"} | SUBMIT))
    checkout.git("rm", "-r", "--quiet", "benchmarks")
    for directory in (checkout.directory / package, checkout.directory / "eventflink"):
        directory.mkdir(exist_ok=True)
        (directory / "__init__.py").touch()
    (checkout.directory / package / "__main__.py").write_text(program)
    checkout.commit("a program")
    said: list[str] = []
    repository = Repository(checkout.directory)
    with Trees(repository, ["-Dsome=option"], said.append) as trees:
        tree = trees.write("head", repository.commit("HEAD"))
        if failures < 2:
            assert trees.measure(tree, (), ()) == figures_of(SUBMIT, {})
        else:
            with pytest.raises(RunFailed, match=r"exit code 1:\nthe leader was deposed"):
                trees.measure(tree, (), ())
    assert len(said) == min(failures, 1)
    assert not tree.path.exists()


def test_a_commit_of_something_else_is_refused(checkout: Checkout, tmp_path_factory: pytest.TempPathFactory) -> None:
    checkout.git("rm", "-r", "--quiet", "schemas")
    checkout.commit("without schemas")
    repository = Repository(checkout.directory)
    with pytest.raises(NotComparable, match="is no tree of eventflink"):
        repository.write_tree(repository.commit("HEAD"), tmp_path_factory.mktemp("tree"))
