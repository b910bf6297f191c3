"""Runs a target: cases from a seed until the time is over, or a law is broken.

A case is a list of messages. What fails is made small by Hypothesis, and told with the seed, the smallest case and how to run it again.
The processor time of a case is bounded here for every target: a case that hangs breaks a law like any other.
"""

import signal
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final, Protocol

from hypothesis import HealthCheck, Phase, Verbosity, given, settings, strategies
from hypothesis import seed as seeded
from hypothesis.errors import HypothesisWarning

from tests.fuzz.corpus_files import Message, encode_case

CASES_PER_ROUND: Final = 100
"""Each round has a seed of its own, the one after that of the round before: so what fails is soon run again."""

MOST_IN_A_BURST: Final = 8
MOST_SHRINKING_S: Final = 30.0

MOST_SHOWN: Final = 4_000
"""Characters of an error, and of a case, that are printed."""

CASE_LIMIT_S: Final = 10.0
"""Of processor time; the slowest cases that hold the laws take a tenth of it on a slow machine."""


class Target(Protocol):
    """Something that reads what others write."""

    name: str
    bursts: int
    """How many bursts of messages a case has at most: many where a case costs more than its messages."""

    def messages(self) -> strategies.SearchStrategy[Message]:
        """Return what may be written."""

    def check(self, case: Sequence[Message]) -> None:
        """Have the real code read a case; whatever is raised says which law is broken."""

    def close(self) -> None:
        """Let go what was started."""


class LawBroken(AssertionError):
    """A case broke a law; the message has the case and how to run it again."""


class TakesTooLong(Exception):
    """A case used more processor time than any may."""


@dataclass(slots=True)
class Tally:
    """What a run has done."""

    target: str
    seed: int
    inputs: int = 0
    cases: int = 0
    seconds: float = 0.0
    failing: list[Message] = field(default_factory=list)
    """The smallest case that broke a law."""

    def line(self) -> str:
        """Return it in one line."""
        rate = self.inputs / self.seconds if self.seconds else 0
        return f"Fuzzed target={self.target} seed={self.seed} inputs={self.inputs} cases={self.cases} s={self.seconds:.0f} per_s={rate:.0f}"


def run(target: Target, seed: int, seconds: float) -> Tally:
    """Try cases until the time is over, in whole rounds, at least one.

    Raises:
        LawBroken: a case broke a law.

    """
    tally = Tally(target.name, seed)
    bursts = strategies.lists(target.messages(), min_size=1, max_size=MOST_IN_A_BURST)
    cases = strategies.lists(bursts, min_size=1, max_size=target.bursts).map(lambda case: [message for burst in case for message in burst])
    began = time.monotonic()
    for round_seed in range(seed, seed + 1_000_000_000):
        _run_round(target, cases, round_seed, tally, began + seconds)
        tally.seconds = time.monotonic() - began
        if tally.seconds >= seconds:
            break
    return tally


def _run_round(target: Target, cases: strategies.SearchStrategy[list[Message]], seed: int, tally: Tally, end_s: float) -> None:
    latest: list[Message] = []
    has_failed = False

    @seeded(seed)
    @settings(
        max_examples=CASES_PER_ROUND,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
    )
    @given(case=cases)
    def attempt(case: list[Message]) -> None:
        nonlocal has_failed
        if not has_failed and time.monotonic() > end_s and tally.cases:
            return  # The rest of the round costs nothing.
        latest[:] = case
        tally.cases += 1
        tally.inputs += len(case)
        try:
            check(target, case)
        except BaseException:
            has_failed, tally.failing = True, list(case)
            raise

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HypothesisWarning)  # That recorded values are long.
            attempt()
    except Exception as error:
        raise LawBroken(_explain(target.name, seed, _needed(target, tally.failing), error)) from error


def _needed(target: Target, case: list[Message]) -> list[Message]:
    """Leave out each message without which a law is still broken: Hypothesis leaves some of them."""
    end_s = time.monotonic() + MOST_SHRINKING_S
    for message in list(case):
        fewer = list(case)
        fewer.remove(message)
        if fewer and time.monotonic() < end_s and not _holds(target, fewer):
            case = fewer
    return case


def _holds(target: Target, case: Sequence[Message]) -> bool:
    try:
        check(target, case)
    except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
        return False
    return True


def check(target: Target, case: Sequence[Message]) -> None:
    """Have a target read one case, within bounded processor time."""
    with _bounded(CASE_LIMIT_S):
        target.check(case)


@contextmanager
def _bounded(limit_s: float) -> Iterator[None]:
    """Raise `TakesTooLong` in the main thread once this process has used so much processor time."""

    def over(_signal: int, _frame: FrameType | None) -> None:
        raise TakesTooLong(f"more than {limit_s:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _explain(name: str, seed: int, case: Sequence[Message], error: Exception) -> str:
    path, text = Path(tempfile.gettempdir()) / f"eventflink-fuzz-{name}-{seed}.json", encode_case(case, "What it shows.")
    path.write_text(text, encoding="utf-8")
    return "\n".join(
        (
            f"{name}: {type(error).__name__}: {str(error)[:MOST_SHOWN]}",
            f"the smallest case, of {len(case)} messages, is in {path}, for tests/fuzz/corpus/{name}/:",
            text[:MOST_SHOWN],
            f"run it again: python -m tests.fuzz --target {name} --seed {seed}",
            f"or that case: python -m tests.fuzz --target {name} --case {path}",
        )
    )
