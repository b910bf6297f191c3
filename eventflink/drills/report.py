"""The reports of drills: rows for a table, Markdown for a file, plain values for JSON. The three say the same."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from eventflink.drills.digests import DigestCheck
from eventflink.drills.failover_drill import FailoverReport
from eventflink.drills.rehearsal import RehearsalReport

Row = tuple[str, str]
Report = FailoverReport | RehearsalReport


def title(report: Report) -> str:
    """Return what was drilled, in one line."""
    if isinstance(report, RehearsalReport):
        return f"Rehearsal of a failover of '{report.cluster_id}' on a copy of its log"
    return f"Failover of '{report.cluster_id}'"


def rows(report: Report) -> list[Row]:
    """Return the findings as (name, value)."""
    return _rehearsal_rows(report) if isinstance(report, RehearsalReport) else _failover_rows(report)


def _failover_rows(report: FailoverReport) -> list[Row]:
    by_kafka = "" if report.granted_by_kafka_ms is None else f" ({report.granted_by_kafka_ms} ms between the two records, by Kafka's clock)"
    found = [
        ("method", report.method),
        ("leader before", f"{report.old_leader}, epoch {report.old_epoch}; standing by: {', '.join(report.standbys) or 'nobody'}"),
        ("leader after", f"{report.new_leader}, epoch {report.new_epoch}"),
        ("crash → new grant", f"{report.granted_ms:.0f} ms{by_kafka}"),
        ("crash → first answer", f"{report.answered_ms:.0f} ms (a command that the new leader refused: the refusal is a decision)"),
        ("tasks alive before", f"{report.tasks.alive}"),
        (
            "of these",
            f"{report.tasks.undisturbed} undisturbed, {report.tasks.finished} finished, {len(report.tasks.disturbed)} disturbed",
        ),
        ("TaskManagers", f"{report.reported} of {report.task_managers} reported to the new leader"),
    ]
    if report.returned is not None:
        found.append(("frozen leader", "came back as a standby" if report.returned else "did not come back as a standby"))
    return found + _digest_rows("digests", report.digests)


def _rehearsal_rows(report: RehearsalReport) -> list[Row]:
    log = report.log
    jobs = ", ".join(f"{count} {status}" for status, count in report.jobs.items()) or "none"
    copied = f"{log.end_offset - log.first_offset:,} records, {log.byte_count:,} bytes, offsets {log.first_offset} to {log.end_offset - 1}"
    return [
        ("copy", f"{copied}, in {log.seconds:.1f} s, as '{report.scratch_id}'"),
        ("state", f"digest {report.state_digest}"),
        ("jobs", jobs),
        ("start → grant", f"{report.start_ms:.0f} ms (with the start of the process, and a lease of silence)"),
        ("start → first decision", f"{report.start_decided_ms:.0f} ms"),
        ("kill -9 → new grant", f"{report.granted_ms:.0f} ms"),
        ("kill -9 → first decision", f"{report.decided_ms:.0f} ms"),
        ("kill -9 → first answer", f"{report.answered_ms:.0f} ms (a command that the new leader refused: the refusal is a decision)"),
        ("clean-ups", f"{report.clean_ups_noted} noted, none done"),
        *_digest_rows("digests before", report.digests_before),
        *_digest_rows("digests after", report.digests_after),
    ]


def _digest_rows(name: str, check: DigestCheck) -> list[Row]:
    where = "at one offset" if check.same_offset else "never all at one offset; each is compared where it stood"
    masters = "1 master" if len(check.masters) == 1 else f"{len(check.masters)} masters"
    found = [(name, f"{masters}, {where}")]
    for master in check.masters:
        equal = "as a replay of the log" if master.digest == master.replayed else f"NOT AS A REPLAY OF THE LOG: {master.replayed}"
        found.append(("", f"{master.master_id} ({master.role}, offset {master.log_offset}): {master.digest[:16]}… {equal}"))
    return found


def as_document(report: Report) -> dict[str, Any]:
    """Return the report as values for JSON."""
    kind = "rehearsal" if isinstance(report, RehearsalReport) else "failover"
    return {"drill": kind, "passed": not report.faults, "faults": report.faults, **asdict(report)}


def as_markdown(report: Report, at_ms: int) -> str:
    """Return the report as a page; `at_ms` is when the drill ended."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
    lines = [
        f"# {title(report)}",
        "",
        f"Drill `{report.drill_id}`, {at}: **{'failed' if report.faults else 'passed'}**.",
        "",
        "| | |",
        "|---|---|",
    ]
    lines += [f"| {_cell(name)} | {_cell(value)} |" for name, value in rows(report)]
    if report.faults:
        lines += ["", "## Faults", "", *(f"- {_cell(fault)}" for fault in report.faults)]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
