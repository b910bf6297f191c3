"""The state for a command that only asks: from any master, and where none answers, from the log itself.

Both give the same: a master first reads on to where the log ended when it was asked, and the log says what the state is, with or
without a master that runs.
"""

import logging
from collections.abc import Callable
from typing import Any

from eventflink.cli.exit_codes import ExitCode
from eventflink.cli.failures import CommandFailed
from eventflink.cli.session import Session
from eventflink.cli.state import read_fold
from eventflink.gateways.reads import NoMasterAnswered, NothingThere, Parameters, ask_masters
from eventflink.leadership.fold import Fold
from eventflink.leadership.plain import View
from eventflink.leadership.views import JobNotFound

_logger = logging.getLogger(__name__)


def ask_state(session: Session, path: str, parameters: Parameters, compute: Callable[[Fold], View]) -> dict[str, Any]:
    """Return the answer of a master to `path`, or what `compute` makes of the folded log; with `log_offset` in either case.

    Raises:
        CommandFailed: what is asked for does not exist, or the log cannot be folded.
        ClusterNotFound: Kafka holds no such cluster.
        ClusterUnreachable: Kafka does not answer.

    """
    try:
        answer = ask_masters(session.bootstrap, session.cluster_id, path, {**parameters, "linearizable": "true"})
    except NothingThere as error:
        raise CommandFailed(ExitCode.NEGATIVE, str(error)) from error
    except NoMasterAnswered as error:
        _logger.info("LogFolded reason=%s", error)
        return fold_state(session, compute)
    _logger.info("MasterAnswered master=%s role=%s offset=%d", answer["master_id"], answer["role"], answer["log_offset"])
    return answer


def fold_state(session: Session, compute: Callable[[Fold], View]) -> dict[str, Any]:
    """Return what `compute` makes of the folded log, with its `log_offset`; raises as `ask_state` does."""
    fold = read_fold(session.bootstrap, session.cluster_id)
    try:
        return {**compute(fold), "log_offset": fold.last_offset}
    except JobNotFound as error:
        raise CommandFailed(ExitCode.NEGATIVE, str(error)) from error
