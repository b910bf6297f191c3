"""A person at a terminal is told what takes longer than a second, until there is something better to see; nobody else is."""

import io
import threading

import pytest
from rich.console import Console

from eventflink.cli import working
from eventflink.cli.working import Working
from tests.support.running_cluster import wait_until


def begin_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working, "_SHOWN_AFTER_S", 0.0)


def test_what_is_done_is_said_until_there_is_something_better_to_see(monkeypatch: pytest.MonkeyPatch) -> None:
    begin_at_once(monkeypatch)
    monkeypatch.setattr(working, "_SAY_EVERY", 2)
    screen = io.StringIO()
    with Working(Console(force_terminal=True, file=screen), "reading the log") as told:
        wait_until(lambda: "reading the log" in screen.getvalue(), "it is said")
        assert list(told.count("abc", "records read")) == ["a", "b", "c"]
        wait_until(lambda: "2 records read" in screen.getvalue(), "how far it is is said")
        told.end()
        before = screen.getvalue()
        told.say("too late")
    assert screen.getvalue() == before


def test_what_is_over_before_that_and_what_nobody_sees_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working, "_SHOWN_AFTER_S", 60.0)  # A busy machine may take longer than a second for nothing.
    screen, file = io.StringIO(), io.StringIO()
    with Working(Console(force_terminal=True, file=screen), "quick"):
        pass
    begin_at_once(monkeypatch)
    running = threading.active_count()
    with Working(Console(file=file), "unseen"):
        assert threading.active_count() == running
    assert (screen.getvalue(), file.getvalue()) == ("", "")
