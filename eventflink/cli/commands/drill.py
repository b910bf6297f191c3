"""`eventflink drill failover`: the leader is made to crash, for real or on a copy of the log, and what that costs is measured."""

import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import click
from rich.table import Table
from rich.text import Text

from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.cli.waiting import StopAsked, stop_on_signals
from eventflink.drills import DrillFailed, DrillRefused
from eventflink.drills.failover_drill import FailoverOptions, FailoverReport, look_around, run_failover
from eventflink.drills.rehearsal import RehearsalReport, run_rehearsal
from eventflink.drills.report import as_document, as_markdown, rows, title
from eventflink.gateways.folding import folding_log
from eventflink.log.producers import NotDelivered
from eventflink.model.statuses import DrillStepType
from eventflink.processes.child_processes import ChildDied
from eventflink.snapshots.log_copy import CopyFailed

_METHODS: Final = {"kill": DrillStepType.KILL, "freeze": DrillStepType.FREEZE, "stop": DrillStepType.STOP}
_FREEZE_LEASES: Final = 5


@click.group()
def drill() -> None:
    """Rehearse the loss of the leader, or cause it."""


@drill.command("failover")
@click.option("--rehearsal", is_flag=True, help="On a copy of the log under a cluster id of its own: the real cluster is only read.")
@click.option("--method", type=click.Choice(list(_METHODS)), help="How the leader is lost. Default: kill (-9).")
@click.option("--freeze-ms", type=click.IntRange(100, 600_000), help="For how long, with --method freeze. Default: five leases.")
@click.option(
    "--pid", "process_id", type=click.IntRange(min=2), help="The leader's process, on this host: send it a signal instead of a command."
)
@click.option("--without-standby", is_flag=True, help="Run it although no standby can take over.")
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(1, 3600), default=60.0, show_default=True, help="For a new leader, in seconds."
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--markdown", "page", type=click.Path(path_type=Path, dir_okay=False), help="Write the report to this file as well.")
@pass_session
def failover(
    session: Session,
    method: str | None,
    freeze_ms: int | None,
    process_id: int | None,
    timeout_s: float,
    page: Path | None,
    *,
    rehearsal: bool,
    without_standby: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Make the leader crash, and measure what follows: the new leader, the first answer, the tasks disturbed, the digests of all masters.

    Without --pid the leader gets a command to crash, which it refuses unless drills.allowed is set there. With --rehearsal the real
    cluster is not touched. Exit code 1: the drill found a fault, or was refused.
    """
    if page is not None and not page.absolute().parent.is_dir():
        raise click.UsageError(f"--markdown: directory not found: '{page.absolute().parent}'")
    drill_id = f"drill-{uuid.uuid4().hex[:12]}"
    if rehearsal:
        given = [name for name, value in (("--method", method), ("--freeze-ms", freeze_ms), ("--pid", process_id)) if value is not None]
        if given or without_standby:
            raise click.UsageError(
                f"{(given or ['--without-standby'])[0]} has no meaning with --rehearsal, which kills a master of its own"
            )
        report: FailoverReport | RehearsalReport = _run(session, lambda: _rehearse(session, drill_id, timeout_s))
    else:
        step = _METHODS[method or "kill"]
        if freeze_ms is not None and step is not DrillStepType.FREEZE:
            raise click.UsageError("--freeze-ms has a meaning only with --method freeze")
        lease_timeout_ms = session.configuration.lease_timeout_ms
        options = FailoverOptions(
            access=session.access,
            drill_id=drill_id,
            step=step,
            freeze_ms=_FREEZE_LEASES * lease_timeout_ms if freeze_ms is None else freeze_ms,
            process_id=process_id,
            without_standby=without_standby,
            lease_timeout_ms=lease_timeout_ms,
            timeout_s=timeout_s,
        )
        report = _run(session, lambda: _fail_over(session, options, ask=not yes))
    return _tell(session, report, page, as_json=as_json)


def _say(session: Session) -> Callable[[str], None]:
    return lambda line: session.err.print(f"• {line}", markup=False)


def _rehearse(session: Session, drill_id: str, timeout_s: float) -> RehearsalReport:
    def command(overrides: dict[str, str], arguments: Sequence[str]) -> list[str]:
        return [*session.child_arguments(session.bootstrap, overrides), *arguments]

    return run_rehearsal(session.configuration, session.access, command, drill_id, timeout_s, _say(session))


def _fail_over(session: Session, options: FailoverOptions, *, ask: bool) -> FailoverReport:
    situation = look_around(options)
    standbys = ", ".join(situation.standbys) or "nobody"
    if ask:
        question = f"{options.step} {situation.leader.master_id}, the leader of '{options.access.cluster_id}' (standing by: {standbys})?"
        try:
            confirmed = click.confirm(question, err=True)
        except click.Abort:
            confirmed = False
        if not confirmed:
            raise DrillRefused("nothing was done: it was not confirmed (--yes does that)")
    return run_failover(options, situation, _say(session))


def _run(session: Session, run: Callable[[], FailoverReport | RehearsalReport]) -> FailoverReport | RehearsalReport:
    """Run a drill, so that whatever ends it undoes what it holds, and turn its errors into those of commands."""
    try:
        with folding_log(session.access), stop_on_signals():
            return run()
    except StopAsked:
        raise CommandFailed(ExitCode.INTERRUPTED, "interrupted; a leader that was killed or frozen stays so") from None
    except DrillRefused as error:
        raise CommandFailed(ExitCode.NEGATIVE, str(error)) from error
    except (DrillFailed, ChildDied, CopyFailed, NotDelivered) as error:
        raise CommandFailed(ExitCode.NEGATIVE, f"the drill failed: {error}") from error


def _tell(session: Session, report: FailoverReport | RehearsalReport, page: Path | None, *, as_json: bool) -> int:
    if as_json:
        session.print_json(as_document(report))
    else:
        session.out.print(title(report), style="bold", markup=False)
        table = Table.grid(padding=(0, 2))
        for name, value in rows(report):
            table.add_row(Text(name, style="bold"), Text(value))
        session.out.print(table)
    for fault in report.faults:
        session.err.print(f"fault: {fault}", style="red", markup=False)
    if page is not None:
        page.write_text(as_markdown(report, time.time_ns() // 1_000_000), encoding="utf-8")
    return ExitCode.NEGATIVE if report.faults else ExitCode.OK
