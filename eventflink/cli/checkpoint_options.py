"""What the commands that take checkpoints and savepoints have in common: how long they wait, and what they say of a savepoint."""

from typing import Final

import click

from eventflink.documents.checkpoints import CompletedCheckpoint
from eventflink.gateways.gateway import DEFAULT_CHECKPOINT_TIMEOUT_S

timeout_option: Final = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, min_open=True),
    default=DEFAULT_CHECKPOINT_TIMEOUT_S,
    show_default=True,
    help="How long to wait until it is complete, in seconds.",
)


def describe_savepoint(taken: CompletedCheckpoint) -> str:
    """Return where a savepoint is, for people."""
    return f"savepoint {taken.checkpoint_id} of {taken.job_id} is complete after {taken.duration_ms} ms: {taken.savepoint_path}"
