"""The stream's own tests: `pytest examples/sessions` with eventflink installed (docs/testing.md)."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from eventflink.testing.mini_cluster import MiniCluster

HERE = Path(__file__).parent
GRAPH = yaml.safe_load((HERE / "sessions.yaml").read_text())
NOBODY = "-"
"""Views pages to move the watermark, and is not counted."""


def view(user: str, at: str, page: str = "start") -> dict[str, str]:
    return {"user": user, "page": page, "at": f"2026-01-01T{at}:00Z"}


def session(user: str, began: str, ended: str, pages: int, **more: Any) -> dict[str, Any]:
    first, last = (datetime.fromisoformat(f"2026-01-01T{at}:00Z") for at in (began, ended))
    return {"user": user, "began": first, "ended": last, "pages": pages, **more}


def ended_sessions(cluster: MiniCluster, count: int) -> list[dict[str, Any]]:
    """Return the sessions of users once there are so many, in the order in which they began."""

    def of_users(records: Any) -> list[dict[str, Any]]:
        return [record.json for record in records if record.json["user"] != NOBODY]

    rows = of_users(cluster.collect_until("user-sessions", lambda records: len(of_users(records)) >= count, 180))
    times = [{name: datetime.fromisoformat(row[name]).astimezone(UTC) for name in ("began", "ended")} for row in rows]
    return sorted(({**row, **at} for row, at in zip(rows, times, strict=True)), key=lambda row: (row["began"], row["user"]))


def test_sessions_go_on_in_the_next_version_of_the_code(eventflink_cluster: MiniCluster) -> None:
    cluster = eventflink_cluster
    views = cluster.create_topic("views", 2)
    cluster.create_topic("user-sessions")

    job = cluster.submit(GRAPH, code=[HERE / "version_1"])
    cluster.feed(views, [view("ada", "10:00"), view("grace", "10:01"), view("ada", "10:05"), view("grace", "10:04")], key="user")
    job.wait_until_running()
    cluster.crash("task", job=job)
    cluster.feed(views, [view("ada", "10:20"), view("linus", "10:21")], key="user")
    cluster.crash("leader")
    cluster.advance_event_time(views, view(NOBODY, "10:45"))
    of_version_1 = [session("grace", "10:01", "10:04", 2)]
    assert ended_sessions(cluster, 1) == of_version_1
    savepoint = job.stop_with_savepoint()

    cluster.feed(views, [view("ada", "10:46", "search"), view("alan", "10:47", "search"), view("alan", "10:48")], key="user")
    with cluster.submit(GRAPH, code=[HERE / "version_2"], savepoint=savepoint) as upgraded:
        cluster.advance_event_time(views, view(NOBODY, "11:10"))
        of_linus = session("linus", "10:21", "10:21", 1, seconds=0, entry=None)
        assert ended_sessions(cluster, 2) == [*of_version_1, of_linus]
        cluster.crash("task", job=upgraded)
        cluster.feed(views, [view("alan", "11:15", "help"), view("linus", "11:16", "help")], key="user")
        cluster.advance_event_time(views, view(NOBODY, "12:30"))
        assert ended_sessions(cluster, 5) == [
            session("ada", "10:00", "10:46", 4, seconds=2760, entry=None),
            *of_version_1,
            of_linus,
            session("alan", "10:47", "11:15", 3, seconds=1680, entry="search"),
            session("linus", "11:16", "11:16", 1, seconds=0, entry="help"),
        ]
