"""Removing a savepoint, as a gateway does it: the files are the user's, so it happens where the user is, with the user's rights."""

from eventflink.gateways.errors import RequestRefused
from eventflink.streams.savepoint import SavepointUnusable, dispose_savepoint


def remove_savepoint(path: str) -> str:
    """Remove a savepoint, whole or not, and return of which job it was.

    Raises:
        RequestRefused: with the code `InvalidSavepoint`: there is none, or it cannot be removed.

    """
    try:
        return dispose_savepoint(path).job_id
    except SavepointUnusable as error:
        raise RequestRefused("InvalidSavepoint", str(error)) from error
