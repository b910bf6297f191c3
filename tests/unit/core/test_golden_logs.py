"""Logs that earlier versions wrote lead where they led: `python -m tests.support.golden` keeps them."""

from pathlib import Path

import pytest

from eventflink.events.log_events import EVENTS, FeatureLevelRaised
from eventflink.model.features import FEATURE_LEVEL, FIRST_LEVEL
from tests.support.cluster import CODEC, replay
from tests.support.golden import FOLDER, outcome, read, write

PATHS = sorted(FOLDER.glob("log-*.jsonl"))


def test_there_is_a_golden_log() -> None:
    """`python -m tests.support.golden write 1` records it."""
    assert PATHS


@pytest.mark.rule("P19")
@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.name)
def test_a_golden_log_leads_where_it_led(path: Path) -> None:
    golden = read(path)
    fold = replay(golden.records)
    fold.master.validate()
    assert outcome(fold) == golden.expected
    assert (fold.accepted_count, fold.rejected_count) == (len(golden.records), 0)


def test_the_golden_logs_together_hold_every_kind_of_event() -> None:
    """A new event needs a new golden log: `python -m tests.support.golden write NUMBER`."""
    held = {type(e) for path in PATHS for v in read(path).records for e in CODEC.decode(v).events}
    assert held == set(EVENTS.values()) - ({FeatureLevelRaised} if FEATURE_LEVEL == FIRST_LEVEL else set())


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    golden = read(PATHS[0])
    write(tmp_path / "copy.jsonl", golden.records)
    assert read(tmp_path / "copy.jsonl") == golden
