"""Golden logs: whole logs as a release wrote them, which every later version replays to the same end.

    python -m tests.support.golden write NUMBER    record a new log with today's code, tests/golden/log-NUMBER.jsonl
    python -m tests.support.golden accept          take today's digests of the logs that are there, after a change of the state

A log is written once. Its digest may change with the layout of the state; what became of its jobs may not.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eventflink.leadership.fold import Fold
from tests.support.cluster import replay
from tests.support.scenarios import eventful_cluster

FOLDER = Path(__file__).parents[1] / "golden"


@dataclass(frozen=True, slots=True)
class GoldenLog:
    """The records of a log, and what they lead to."""

    expected: dict[str, Any]
    records: tuple[bytes, ...]


def outcome(fold: Fold) -> dict[str, Any]:
    """Return what is expected of a replay."""
    dispatcher = fold.master.dispatcher
    return {
        "digest": fold.master.digest(),
        "running_hash": fold.running_hash.hex(),
        "epoch": fold.acceptance.epoch,
        "sequence": fold.acceptance.sequence,
        "events": fold.event_count,
        "jobs": {job_id: job.status.value for job_id, job in dispatcher.jobs.items()},
        "forgotten": list(dispatcher.forgotten),
        "answers": len(fold.master.requests.answers),
        "cursors": {topic: cursor.next_offset for topic, cursor in fold.master.requests.cursors.items()},
    }


def read(path: Path) -> GoldenLog:
    """Read a golden log: the first line says what is expected, every other one is a record in hexadecimal."""
    first, *records = path.read_text(encoding="utf-8").splitlines()
    return GoldenLog(json.loads(first), tuple(bytes.fromhex(json.loads(line)["record"]) for line in records))


def write(path: Path, records: Sequence[bytes]) -> None:
    """Write a golden log."""
    lines = [json.dumps(outcome(replay(records)), ensure_ascii=False)]
    lines += [json.dumps({"offset": offset, "record": record.hex()}) for offset, record in enumerate(records)]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or accept; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.golden", description="Record or accept golden logs.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("write").add_argument("number", type=int)
    commands.add_parser("accept")
    options = parser.parse_args(arguments)
    if options.command == "write":
        write(FOLDER / f"log-{options.number}.jsonl", eventful_cluster().log)
        return 0
    for path in sorted(FOLDER.glob("log-*.jsonl")):
        write(path, read(path).records)
    return 0


if __name__ == "__main__":
    sys.exit(main())
