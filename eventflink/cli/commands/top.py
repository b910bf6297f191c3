"""`eventflink top`: the cluster and its jobs, again and again, until somebody has seen enough."""

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import ask_cluster, ask_jobs
from eventflink.cli.top_frame import Frame, draw
from eventflink.gateways.errors import GatewayError

_JOBS: Final = 1_000


@click.command()
@click.option("--every", "pause_s", type=click.FloatRange(0.2, 3_600), default=2.0, show_default=True, help="Seconds between two looks.")
@click.option("--once", is_flag=True, help="Show it once.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a look.")
@pass_session
def top(session: Session, pause_s: float, *, once: bool, as_json: bool) -> int:
    """Show the cluster and its jobs live, until q or Ctrl-C.

    Without a terminal each look is printed below the one before.
    """
    with contextlib.suppress(KeyboardInterrupt):
        if once or as_json or not session.out.is_terminal:
            _print(session, pause_s, once=once, as_json=as_json)
        else:
            _show(session, pause_s)
    return ExitCode.OK


def _look(session: Session) -> Frame:
    return Frame(session.cluster_id, ask_cluster(session), ask_jobs(session, (), _JOBS), time.monotonic())


def _print(session: Session, pause_s: float, *, once: bool, as_json: bool) -> None:
    before: Frame | None = None
    while True:
        frame = _look(session)
        if as_json:
            session.print_json(frame.as_json())
        else:
            for part in draw(frame, before):
                session.out.print(part)
        sys.stdout.flush()
        if once:
            return
        before = frame
        time.sleep(pause_s)


def _show(session: Session, pause_s: float) -> None:
    before: Frame | None = None
    with _keys() as wait_for_key, Live(console=session.out, screen=True, auto_refresh=False) as live:
        while True:
            try:
                frame = _look(session)
            except GatewayError as error:  # It may be back with the next look.
                live.update(Group(*_drawn(session, before, None), Text(str(error), style="red")), refresh=True)
            else:
                live.update(Group(*_drawn(session, frame, before)), refresh=True)
                before = frame
            if wait_for_key(pause_s) in ("q", "Q", "\x03"):
                return


def _drawn(session: Session, frame: Frame | None, before: Frame | None) -> list[RenderableType]:
    return draw(frame, before, session.out.size.height) if frame is not None else []


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Give a function that waits for a key so many seconds at most; "" where there was none, or nothing to press."""
    if not sys.stdin.isatty():

        def wait(pause_s: float) -> str:
            time.sleep(pause_s)
            return ""

        yield wait
        return
    import termios  # noqa: PLC0415 - only where there is a terminal
    import tty  # noqa: PLC0415 - only where there is a terminal

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def wait_for_key(pause_s: float) -> str:
        ready, _, _ = select.select([descriptor], [], [], pause_s)
        return os.read(descriptor, 1).decode(errors="replace") if ready else ""

    try:
        tty.setcbreak(descriptor)
        yield wait_for_key
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
