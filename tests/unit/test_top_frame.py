"""A picture of the cluster has the numbers of its views, fits the screen, and says what happened since the one before."""

import io
import os
import sys
import termios
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console, Group

from eventflink.cli.commands.top import _keys
from eventflink.cli.drawing import seconds_until_now
from eventflink.cli.top_frame import Frame, draw
from eventflink.documents.jobs import JobList
from eventflink.views.jobs_and_cluster import cluster_view, jobs_view
from tests.support.cluster import replay
from tests.support.recorded_cluster import recorded_cluster
from tests.support.scenarios import busy_cluster

WIDTH = 160


@pytest.fixture(scope="module")
def frame() -> Frame:
    cluster = recorded_cluster()
    fold = replay(cluster.log, timestamps=cluster.timestamps)
    return Frame("orders", cluster_view(fold), jobs_view(fold, (), 1_000), 100.0)


def drawn(frame: Frame, before: Frame | None = None, height: int = 10_000) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=WIDTH, highlight=False).print(Group(*draw(frame, before, height)))
    return out.getvalue().splitlines()


def test_every_job_and_task_manager_is_there_with_its_numbers(frame: Frame) -> None:
    lines = drawn(frame)
    for job in frame.jobs.jobs:
        [line] = [line for line in lines if line.startswith(f"{job.job_id} ")]
        assert {job.status, f"{job.tasks_finished}/{job.tasks}"} <= set(line.split())
    for row in frame.cluster.task_managers:
        [line] = [line for line in lines if line.startswith(f"{row.task_manager_id} ")]
        assert f"{row.slots - row.slots_free}/{row.slots}" in line.split()
    assert f"log offset {frame.cluster.log_offset}, last decision" in "\n".join(lines)


def test_jobs_that_live_come_before_those_that_have_ended(frame: Frame) -> None:
    lines = drawn(frame)
    order = [line.split()[0] for line in lines[lines.index(next(line for line in lines if line.startswith("job id"))) + 1 :]]
    ended = {job.job_id: job.ended_at is not None for job in frame.jobs.jobs}
    assert [ended[job_id] for job_id in order] == sorted(ended.values())
    assert len(set(ended.values())) == 2


@pytest.mark.parametrize("height", [1, 20, 24, 40])
def test_a_picture_is_no_higher_than_the_screen_and_says_what_is_not_there(frame: Frame, height: int) -> None:
    many = replace(frame, jobs=JobList(jobs=frame.jobs.jobs * 20, total=20 * len(frame.jobs.jobs)))
    lines = drawn(many, height=height)
    assert len(lines) <= max(height, 16)
    assert lines[-1].startswith("and ")


def test_what_was_decided_since_and_who_leads_now_is_said(frame: Frame) -> None:
    cluster = replace(frame.cluster, log_offset=frame.cluster.log_offset + 30, epoch=frame.cluster.epoch + 1)
    text = "\n".join(drawn(replace(frame, cluster=cluster, at_s=102.0), frame))
    assert "(15.0 decisions a second)" in text
    assert f"another master leads since epoch {frame.cluster.epoch}" in text
    assert "decisions a second" not in "\n".join(drawn(frame, frame))


def test_blocked_task_managers_and_waits_are_remarked() -> None:
    cluster = busy_cluster()
    cluster.block("tm2")
    fold = replay(cluster.log, timestamps=cluster.timestamps)
    lines = drawn(Frame("busy", cluster_view(fold), jobs_view(fold, (), 1_000), 0.0))
    assert any(line.startswith("tm2 ") and "blocked" in line for line in lines)
    assert any("requests wait" in line for line in lines)


def test_a_key_is_heard_at_once_and_the_terminal_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    controller, terminal = os.openpty()
    before = termios.tcgetattr(terminal)
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with _keys() as wait_for_key:
            assert wait_for_key(0.0) == ""
            os.write(controller, b"q")
            assert wait_for_key(60.0) == "q"
            assert termios.tcgetattr(stdin.fileno()) != before
        assert termios.tcgetattr(stdin.fileno()) == before
    os.close(controller)


@pytest.mark.parametrize(("ended_at", "least", "most"), [(None, 59.9, 120), ("2026-01-01T00:00:01+00:00", 0.5, 0.5)])
def test_a_job_that_runs_has_run_until_now_whenever_the_last_decision_was(ended_at: str | None, least: float, most: float) -> None:
    submitted_at = (datetime.now(UTC) - timedelta(seconds=60)).isoformat()
    assert least <= seconds_until_now(500, submitted_at, ended_at) <= most
