"""Whatever anybody writes, laws hold: every case of the corpus, and as many new ones as `FUZZ_SECONDS` allows (`tests/fuzz/`)."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from hypothesis import strategies as st

from tests.fuzz.corpus_files import CORPUS, Message, encode_case, read_case
from tests.fuzz.engine import LawBroken, Target, check, run
from tests.fuzz.targets import TARGETS

pytestmark = pytest.mark.slow

SECONDS: Final = float(os.environ.get("FUZZ_SECONDS", "20"))
SEED: Final = int(os.environ.get("FUZZ_SEED", "0"))
SOAK_SECONDS: Final = float(os.environ.get("SOAK_SECONDS", "3600"))
SOAK_SEED: Final = int(os.environ.get("SOAK_SEED", "0"))
CASES: Final = sorted(CORPUS.glob("*/*.json"))


@pytest.fixture(scope="module", params=TARGETS)
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    made = TARGETS[request.param]()
    yield made
    made.close()


@pytest.mark.rule("P10")
def test_a_law_holds_for_every_case_of_the_corpus(target: Target) -> None:
    # What is a case without a secret is one with it: nobody has sealed that.
    names = (target.name, target.name.removeprefix("sealed_"))
    cases = [path for path in CASES if path.parent.name in names]
    assert cases
    for path in cases:
        check(target, read_case(path))


@pytest.mark.soak("eventflink")
@pytest.mark.timeout(300 + SECONDS)
def test_a_law_holds_whatever_is_written_for_long(target: Target) -> None:
    assert run(target, SOAK_SEED, SOAK_SECONDS / len(TARGETS)).inputs > 0


@pytest.mark.rule("P10")
@pytest.mark.timeout(300 + SECONDS)
def test_a_law_holds_whatever_is_written(target: Target) -> None:
    assert run(target, SEED, SECONDS / len(TARGETS)).inputs > 0


def test_the_corpus_is_of_targets_alone_and_its_files_are_small() -> None:
    assert {path.parent.name for path in CORPUS.glob("*/*")} <= set(TARGETS)
    assert max(path.stat().st_size for path in CASES) < 64 * 1024


class _Impatient:
    """Finds two orders too many."""

    name = "impatient"
    bursts = 3

    def messages(self) -> st.SearchStrategy[Message]:
        return st.builds(Message, st.sampled_from(["orders", "questions"]), st.binary())

    def check(self, case: Sequence[Message]) -> None:
        assert len([message for message in case if message.to == "orders"]) < 2, "two orders"

    def close(self) -> None:
        """Nothing was started."""


def test_what_breaks_a_law_is_told_with_its_seed_its_smallest_case_and_how_to_run_it_again(tmp_path: Path) -> None:
    with pytest.raises(LawBroken, match=r"two orders") as found:
        run(_Impatient(), 7, 5)
    text = str(found.value)
    assert "--target impatient --seed 7" in text
    assert "the smallest case, of 2 messages" in text
    written = tmp_path / "case.json"
    case = [Message("commands", b"\xff\0", b"key"), Message("log", b"text", sealed_by="stranger")]
    written.write_text(encode_case(case, "why"), encoding="utf-8")
    assert read_case(written) == case
