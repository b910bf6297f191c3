"""Which error leads to which exit code: the only place that knows whose fault an error is.

It imports every room that has errors, and so is imported only when a command has failed.
"""

import errno
from typing import Final

from eventflink.audit import FilterInvalid, NothingKnown, QueryInvalid
from eventflink.blob import BlobError, BlobNotFound, BlobStorageUnusable, BlobTooLarge, BlobUnavailable, InvalidBlobKey
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.gateways.errors import (
    AccessDenied,
    ArchiveUnusable,
    CheckpointFailed,
    GatewayError,
    LogNotTrusted,
    LogUnfoldable,
    RequestRefused,
    ResultNotNamed,
    ResultNotThere,
)
from eventflink.jobs.archive import ArchiveError
from eventflink.jobs.published import ResultUnreadable
from eventflink.leadership.fold import SecretUnfit
from eventflink.leadership.known_log import LogTruncated
from eventflink.local.embedded_broker import BrokerUnavailable
from eventflink.local.java import JavaMissing
from eventflink.log.admin_connection import AccessRefused
from eventflink.log.administration import AdministrationError, NotDurable, TopicMisconfigured
from eventflink.model.configuration import ConfigurationError
from eventflink.model.job_graph_document import InvalidJobGraph
from eventflink.model.packages import PackageMissing
from eventflink.model.references import SecretMissing
from eventflink.model.schedule_document import InvalidSchedule
from eventflink.notify.document import InvalidNotifications
from eventflink.processes.child_processes import ChildDied
from eventflink.processes.pid_files import PidFilesUnusable
from eventflink.session.errors import KafkaNotFound, SecretNotWritten, SessionInvalid
from eventflink.snapshots.log_copy import CopyFailed
from eventflink.streams.savepoint import SavepointUnusable
from eventflink.taskexecutor.spark_server import SparkUnavailable

# The first match counts: narrower types come before wider ones.
_EXIT_CODES: Final[tuple[tuple[type[Exception], ExitCode], ...]] = (
    (ConfigurationError, ExitCode.USAGE),
    (SessionInvalid, ExitCode.USAGE),
    (SecretNotWritten, ExitCode.ENVIRONMENT),
    (KafkaNotFound, ExitCode.UNREACHABLE),
    (InvalidJobGraph, ExitCode.USAGE),
    (InvalidSchedule, ExitCode.USAGE),
    (InvalidNotifications, ExitCode.USAGE),
    (ArchiveError, ExitCode.USAGE),
    (BlobTooLarge, ExitCode.USAGE),
    (InvalidBlobKey, ExitCode.USAGE),
    (BlobStorageUnusable, ExitCode.USAGE),
    (FilterInvalid, ExitCode.USAGE),
    (QueryInvalid, ExitCode.USAGE),
    (SavepointUnusable, ExitCode.USAGE),
    (ResultNotNamed, ExitCode.USAGE),
    (ResultNotThere, ExitCode.NEGATIVE),
    (ResultUnreadable, ExitCode.NEGATIVE),
    (NothingKnown, ExitCode.NEGATIVE),
    (RequestRefused, ExitCode.NEGATIVE),
    (BlobNotFound, ExitCode.NEGATIVE),
    (ArchiveUnusable, ExitCode.NEGATIVE),
    (CheckpointFailed, ExitCode.NEGATIVE),
    (AccessDenied, ExitCode.NEGATIVE),
    (AccessRefused, ExitCode.NEGATIVE),
    (SecretMissing, ExitCode.USAGE),
    (BlobUnavailable, ExitCode.UNREACHABLE),
    (LogUnfoldable, ExitCode.INTERNAL),
    (LogNotTrusted, ExitCode.ENVIRONMENT),
    (GatewayError, ExitCode.UNREACHABLE),
    (BlobError, ExitCode.NEGATIVE),
    (PackageMissing, ExitCode.ENVIRONMENT),
    (JavaMissing, ExitCode.ENVIRONMENT),
    (BrokerUnavailable, ExitCode.ENVIRONMENT),
    (TopicMisconfigured, ExitCode.ENVIRONMENT),
    (NotDurable, ExitCode.ENVIRONMENT),
    (LogTruncated, ExitCode.ENVIRONMENT),
    (SecretUnfit, ExitCode.ENVIRONMENT),
    (ChildDied, ExitCode.ENVIRONMENT),
    (SparkUnavailable, ExitCode.ENVIRONMENT),
    (AdministrationError, ExitCode.UNREACHABLE),
    (PidFilesUnusable, ExitCode.ENVIRONMENT),
    (CopyFailed, ExitCode.NEGATIVE),
)

_OF_THE_MACHINE: Final = frozenset(
    {errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EPERM, errno.EMFILE}
)


def explain(error: BaseException) -> tuple[ExitCode, str]:
    """Return the exit code and the one line for people."""
    if isinstance(error, CommandFailed):
        return error.exit_code, str(error)
    for error_type, exit_code in _EXIT_CODES:
        if isinstance(error, error_type):
            return exit_code, str(error)
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
        place = f"{error.filename}: " if error.filename else ""
        return ExitCode.ENVIRONMENT, f"{place}{error.strerror or error}"
    return ExitCode.INTERNAL, f"internal error: {type(error).__name__}: {error} (with -v you see where)"
