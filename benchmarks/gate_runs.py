"""Two commits of this project, each as a tree of its own, and the benchmarks that are run from them in alternation.

A tree is written from git's objects into a temporary directory: nothing is registered in the repository, and what is not committed is not
measured. Both are run by the Python environment of this process, which finds its packages in the tree first. Every run has processes of its
own, and its temporary files lie in the directory that is removed at the end; a run that is interrupted ends its cluster before it ends.
"""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from benchmarks.gate import Figure, figures_of
from eventflink.processes.child_processes import start_child
from eventflink.processes.log_files import last_lines

MEASURED: Final = ("benchmarks", "eventflink", "schemas")
"""What of a commit runs."""

_GIT_TIMEOUT_S: Final = 60.0
_RUN_TIMEOUT_S: Final = 3600.0
_ATTEMPTS: Final = 2
"""A busy machine may depose a leader in the middle of a run, whose figures then mean nothing; twice in a row it is no accident."""
_STOP_TIMEOUT_S: Final = 90.0
_ASK_TIMEOUT_S: Final = 60.0


class NotComparable(Exception):
    """There are no two commits to compare; the message says why."""


class RunFailed(Exception):
    """A benchmark of one of the commits failed; the message says which, and how."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit, and how it is called in what is printed."""

    digest: str
    subject: str

    @property
    def short(self) -> str:
        """So much of its digest as people use."""
        return self.digest[:10]


class Repository:
    """The git checkout around a directory."""

    def __init__(self, directory: Path) -> None:
        """Find it.

        Raises:
            NotComparable: there is none, or git is not installed.

        """
        self._root = directory
        if shutil.which("git") is None:
            raise NotComparable("git is not installed, and it keeps the commits that are to be compared")
        found = self._ask("rev-parse", "--show-toplevel")
        if found is None:
            raise NotComparable(f"{directory} is not in a git checkout: run this where the commits are that are to be compared")
        self._root = Path(found)

    def commit(self, name: str) -> Commit:
        """Return the commit of this name; raises `NotComparable`."""
        found = self._ask("log", "-1", "--format=%H %s", "--end-of-options", f"{name}^{{commit}}", "--")
        if found is None:
            raise NotComparable(f"there is no commit '{name}' in {self._root}")
        digest, _, subject = found.partition(" ")
        return Commit(digest, subject)

    def default_base(self) -> Commit:
        """Return where HEAD left main, or on main the commit before HEAD; raises `NotComparable`."""
        head, fork = self.commit("HEAD"), self._ask("merge-base", "HEAD", "main")
        if fork is not None and fork != head.digest:
            return self.commit(fork)
        try:
            return self.commit("HEAD~1")
        except NotComparable as error:
            raise NotComparable(f"{error}: HEAD has nothing to be compared with; give --base") from None

    def check_clean(self) -> None:
        """Raise `NotComparable` if HEAD is not what the files say."""
        changed = self._ask("status", "--porcelain", "--", *MEASURED)
        if changed:
            names = ", ".join(line[3:] for line in changed.splitlines()[:3])
            raise NotComparable(f"not committed, so not measured: {names}; commit or stash what is changed in {' and '.join(MEASURED)}")

    def write_tree(self, commit: Commit, directory: Path) -> None:
        """Write what runs of a commit into a directory; raises `NotComparable`."""
        there = MEASURED if self._ask("rev-parse", f"{commit.digest}:benchmarks") else MEASURED[1:]
        command = ["git", "-C", str(self._root), "archive", "--format=tar", commit.digest, *there]
        done = subprocess.run(command, capture_output=True, check=False, timeout=_GIT_TIMEOUT_S)
        if done.returncode:
            raise NotComparable(f"{commit.short} is no tree of eventflink: {done.stderr.decode(errors='replace').strip()}")
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(directory, filter="data")

    def _ask(self, *arguments: str) -> str | None:
        """Return what git answers, without the last line break; None if it refuses."""
        command = ["git", "-C", str(self._root), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_GIT_TIMEOUT_S)
        return done.stdout.rstrip("\n") if done.returncode == 0 else None


@dataclass(frozen=True, slots=True)
class Tree:
    """A commit that can be run."""

    commit: Commit
    path: Path


class Trees:
    """The trees of both commits in one temporary directory. For the main thread; use it as a context manager."""

    def __init__(self, repository: Repository, options: Sequence[str], say: Callable[[str], None]) -> None:
        """Write nothing yet; `options` are the global ones, before the name of a benchmark."""
        self._repository = repository
        self._options = tuple(options)
        self._say = say
        self._directory = Path()
        self._runs = 0

    def __enter__(self) -> Self:
        self._directory = Path(tempfile.mkdtemp(prefix="eventflink-gate-"))
        return self

    def __exit__(self, *exception: object) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    def write(self, name: str, commit: Commit) -> Tree:
        """Write the tree of a commit.

        Raises:
            NotComparable: it is no eventflink, or one that cannot say where the processor time goes.

        """
        tree = Tree(commit, self._directory / name)
        tree.path.mkdir()
        self._repository.write_tree(commit, tree.path)
        command = self._command(tree, ["submit", "--help"])
        asked = subprocess.run(
            command, cwd=tree.path, env=self._environment(tree), capture_output=True, text=True, check=False, timeout=_ASK_TIMEOUT_S
        )
        if asked.returncode or re.search(r"^ *--trace ", asked.stdout, re.MULTILINE) is None:
            raise NotComparable(f"{commit.short} ({commit.subject}) has no benchmark 'submit --trace', by which commits are compared")
        return tree

    def measure(self, tree: Tree, submit_arguments: Sequence[str], replay_arguments: Sequence[str]) -> dict[Figure, float]:
        """Run both benchmarks of a tree once; raises `RunFailed`."""
        submit = self._run(tree, ["submit", "--trace", "--json", *submit_arguments])
        replay = self._run(tree, ["replay", "--json", *replay_arguments])
        try:
            return figures_of(submit, replay)
        except KeyError as error:
            raise RunFailed(f"what the benchmarks of {tree.commit.short} print has no {error}") from error

    def _run(self, tree: Tree, arguments: Sequence[str]) -> Mapping[str, Any]:
        name = f"the benchmark '{' '.join(arguments)}' of {tree.commit.short}"
        failure = ""
        for _ in range(_ATTEMPTS):
            if failure:
                self._say(f"{failure}\nit is repeated")
            exit_code, log_path = self._run_once(tree, arguments, name)
            if exit_code == 0:
                return _document(log_path.read_text(encoding="utf-8", errors="replace"), name)
            failure = f"{name} ended with exit code {exit_code}:\n{last_lines(log_path)}"
        raise RunFailed(failure)

    def _run_once(self, tree: Tree, arguments: Sequence[str], name: str) -> tuple[int, Path]:
        """Return the exit code of a run, and where its output is; raises `RunFailed`."""
        self._runs += 1
        command = self._command(tree, arguments)
        run = start_child(f"run-{self._runs}", command, self._directory, directory=tree.path, environment=self._environment(tree))
        try:
            return run.process.wait(_RUN_TIMEOUT_S), run.log_path
        except subprocess.TimeoutExpired:
            raise RunFailed(f"{name} takes longer than {_RUN_TIMEOUT_S:.0f} s:\n{last_lines(run.log_path)}") from None
        finally:
            _interrupt(run.process)

    def _command(self, tree: Tree, arguments: Sequence[str]) -> list[str]:
        """Return the command line of a benchmark of the tree's own, which in commits without `benchmarks/` is a command of `eventflink`."""
        if (tree.path / "benchmarks").is_dir():
            return [sys.executable, "-m", "benchmarks", *self._options, *arguments]
        return [sys.executable, "-m", "eventflink.cli", *self._options, "bench", *arguments]

    def _environment(self, tree: Tree) -> dict[str, str]:
        """Return the environment in which the tree's modules come first, are compiled once, and leave nothing behind."""
        environment = {**os.environ, "PYTHONPATH": str(tree.path), "TMPDIR": str(self._directory)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        return environment


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """End a run that has not ended, as Ctrl-C does: it ends its cluster in order. Its children die with it if it does not."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _document(output: str, name: str) -> Mapping[str, Any]:
    """Return the one JSON object that a benchmark prints among its remarks."""
    for line in output.splitlines():
        if line.startswith('{"benchmark"'):
            document: dict[str, Any] = json.loads(line)
            return document
    raise RunFailed(f"{name} printed no figures")


def alternate(
    base: Tree, candidate: Tree, rounds: int, measure: Callable[[Tree], dict[Figure, float]], say: Callable[[str], None]
) -> tuple[list[dict[Figure, float]], list[dict[Figure, float]]]:
    """Measure both in each round, in the order A B, B A, A B …, so that a machine that gets slower or faster is not held against one."""
    measured: dict[Path, list[dict[Figure, float]]] = {base.path: [], candidate.path: []}
    for number in range(rounds):
        for tree in (base, candidate) if number % 2 == 0 else (candidate, base):
            say(f"round {number + 1} of {rounds}: {tree.commit.short} {tree.commit.subject}")
            measured[tree.path].append(measure(tree))
    return measured[base.path], measured[candidate.path]
