"""`eventflink taskexecutor`: one TaskExecutor, in the foreground."""

import click

from eventflink.cli.session import Session, pass_session
from eventflink.cli.waiting import ending_in_order
from eventflink.taskexecutor.executor import run_task_executor


@click.command()
@pass_session
def taskexecutor(session: Session) -> int:
    """Start a TaskExecutor.

    It registers, offers taskmanager.numberOfTaskSlots slots, and runs until it is stopped (Ctrl-C, SIGTERM).
    """
    configuration = session.configuration.with_ids()
    session.log_to_stderr(configuration.task_manager_id)
    with ending_in_order():
        return run_task_executor(configuration, session.await_access())
