"""The port to what starts and stops workers, as Flink's ResourceManagerDriver.

A driver obeys orders and reports what it sees; it decides nothing. Workers have ids that the master minted (`worker-1`, …), and each
is started as a TaskExecutor whose `taskmanager.id` is that id: so its registration is recognised, and `list_workers` finds it again
after the master that asked for it is gone. All calls come from a thread that may wait, one after the other, and each has to return within
`CALL_TIMEOUT_S`. `tests/support/driver_laws.py` has the laws that every driver keeps.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from eventflink.leadership.worker_reconciliation import ListedWorker
from eventflink.master.effects import RequestWorker

CALL_TIMEOUT_S: Final = 60.0


class DriverUnusable(Exception):
    """A driver cannot do what it was asked; the message says why."""


class ResourceEventHandler(Protocol):
    """What a driver tells the master; any thread may call it, and it never waits."""

    def on_worker_terminated(self, worker_id: str, diagnostics: str) -> None:
        """Take note that a worker has ended, or could not be started; told twice, the second time counts for nothing."""


class ResourceDriver(Protocol):
    """One resource provider. Whatever a call raises, an OSError for example, counts as its failure and is tried again or given up."""

    def lead(self, epoch: int, handler: ResourceEventHandler) -> None:
        """Serve a leadership: from now on a leader of a lower epoch starts nothing any more, where the provider can see to that."""

    def list_workers(self) -> Sequence[ListedWorker]:
        """Return all workers of this cluster: also those that a master before this one asked for, also those that have ended.

        One that has ended stays in the list until it is stopped.
        """

    def request_worker(self, worker: RequestWorker) -> None:
        """Begin to start a worker, which is in the list from then on; one that is there already is left as it is.

        Raises:
            Exception: it cannot be started; the message says why.

        """

    def stop_worker(self, worker_id: str) -> None:
        """Begin to stop a worker: first in order, and with force after `cluster.stop-timeout`. Then it is in the list no more.

        One that is not there is stopped already.
        """

    def deregister_application(self, status: str, diagnostics: str) -> None:
        """Tell the provider how the cluster ended, such as SUCCEEDED, FAILED or CANCELED, and stop all workers.

        The one call that may take as long as `cluster.stop-timeout`. From then on no worker is started.
        """

    def close(self) -> None:
        """Give back what this process holds. Workers live on: another master may lead them."""
