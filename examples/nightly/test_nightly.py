"""The job's own test: it is back-filled while the leader dies, fails by a mistake, and runs again from there with mended code."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import yaml

import eventflink
from eventflink.testing.mini_cluster import MiniCluster

HERE = Path(__file__).parent
DAY_MS = 86_400_000
FIRST_MS = 1_793_494_800_000
"""Two o'clock of 2026-11-01 in Berlin, whose job is for the day before."""
DAYS = [(number, f"2026-11-0{number}") for number in range(1, 4)]
TIMEOUT_S = 240.0


def test_every_day_is_published_once_and_a_failed_one_after_it_was_mended(eventflink_cluster: MiniCluster, tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "all.csv").write_text(
        "".join(f"2026-11-0{day},EUR,{day}\n2026-11-0{day},SEK,{100 * day}\n" for day in range(1, 5))
    )
    (tmp_path / "rates.csv").write_text("EUR,1.0\nSEK,0.1\n")
    schedule = yaml.safe_load((HERE / "nightly.yaml").read_text())
    schedule |= {"job": yaml.safe_load((HERE / "revenue.yaml").read_text()), "parameters": {"directory": str(tmp_path)}}
    alert = yaml.safe_load((HERE / "alert.yaml").read_text())
    with webhook() as (url, texts), eventflink.connect(eventflink_cluster.bootstrap, eventflink_cluster.cluster_id) as cluster:
        cluster.put_schedule("nightly", schedule, code=[HERE / "nightly.py"])
        cluster.put_schedule("alert", alert | {"parameters": {"webhook": url}}, code=[HERE / "nightly.py"])
        cluster.start_backfill("nightly", FIRST_MS + DAY_MS, FIRST_MS + 3 * DAY_MS, concurrency=2)
        eventflink_cluster.crash("leader")
        wait_until(lambda: cluster.schedule("nightly").backfill is None)
        past = cluster.schedule("nightly").history
        assert [each.instant[:10] for each in past] == ["2026-11-03", "2026-11-02"]
        assert {cluster.job(str(each.job_id)).status() for each in past} == {"FINISHED"}
        assert published(tmp_path) == ["day=2026-11-01", "day=2026-11-02"]

        mistaken = tmp_path / "nightly.py"
        mistaken.write_text((HERE / "nightly.py").read_text().replace("amount * rate", "amount * rates"))
        cluster.put_schedule("nightly", schedule, code=[mistaken])
        cluster.fire_schedule("nightly", "third", FIRST_MS + 3 * DAY_MS)
        assert cluster.job("third").wait(TIMEOUT_S).status == "FAILED"
        cluster.put_schedule("nightly", schedule, code=[HERE / "nightly.py"])
        again = cluster.job("third").rerun("third-again", failed=True, document=schedule["job"], code=[HERE / "nightly.py"])
        assert again.wait(TIMEOUT_S).status == "FINISHED"
        assert [vertex.vertex_id for vertex in again.details().vertices if vertex.reuse is None or not vertex.reuse.is_reused] == [
            "published"
        ]
        rows: list[dict[str, Any]] = again.result("published").to_arrow().to_pylist()
        assert sorted((row["currency"], row["euros"]) for row in rows) == [("EUR", 3.0), ("SEK", 30.0)]
        assert published(tmp_path)[-1] == "day=2026-11-03"
        wait_until(lambda: texts)
        assert texts == ["the revenue of a day was not published: eventflink status third"]


@contextmanager
def webhook() -> Iterator[tuple[str, list[str]]]:
    """Serve a webhook; yield its address and the texts that it is sent."""
    texts: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            texts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"])
            self.send_response(204)
            self.end_headers()

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", texts
    finally:
        server.shutdown()
        server.server_close()


def published(directory: Path) -> list[str]:
    """Return the days of the table that are whole."""
    return sorted(success.parent.name for success in (directory / "revenue").glob("day=*/_SUCCESS"))


def wait_until(condition: Any) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)
