"""A resource driver that ends its master by an error that nothing in the master expects, when a test wants it: it calls `sys.exit`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from eventflink.entrypoint.resource_driver import ResourceEventHandler
from eventflink.leadership.worker_reconciliation import ListedWorker
from eventflink.master.effects import RequestWorker
from eventflink.model.configuration import Configuration


def order_of(data_path: Path) -> Path:
    """Return the file that tells the driver of the leader to quit; the driver removes it."""
    return data_path / "quit"


class QuittingDriver:
    """Starts nobody."""

    def __init__(self, configuration: Configuration, _program: Sequence[str]) -> None:
        self._order = order_of(configuration.data_path)

    def lead(self, epoch: int, handler: ResourceEventHandler) -> None:
        """Nobody is started, so nobody has to be fenced."""

    def list_workers(self) -> list[ListedWorker]:
        if self._order.exists():
            self._order.unlink()
            sys.exit("the driver was told to quit")
        return []

    def request_worker(self, worker: RequestWorker) -> None:
        raise NotImplementedError(worker.worker_id)

    def stop_worker(self, worker_id: str) -> None:
        """Nobody is there."""

    def deregister_application(self, status: str, diagnostics: str) -> None:
        """Nobody is to be told."""

    def close(self) -> None:
        """Hold nothing."""
