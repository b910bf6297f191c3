"""An election of one's own, as docs/operating.md shows it: of the masters of one host the one that holds the lock of a file may lead."""
# ruff: noqa: ARG002 - the signatures are the port's

import fcntl
from typing import IO

from eventflink.leadership.election import Advice, Election
from eventflink.model.configuration import Configuration


class FileElection(Election):
    """Both the service and its port; `heard`, `granted` and `said` are inherited and do nothing."""

    def __init__(self, configuration: Configuration, incarnation: str) -> None:
        self.election = self
        self._path = configuration.data_path / f"{configuration.cluster_id}.election"
        self._file: IO[str] | None = None
        self._takes_part = self._holds = False

    def start(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()  # The kernel does the same when the process dies.

    def begin(self, now_ms: int) -> None:
        self._takes_part = True

    def end(self) -> None:
        self._takes_part = self._holds = False
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def advise(self, stuck_since_ms: int | None, now_ms: int) -> Advice:
        if self._file is not None and self._takes_part and not self._holds:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # Never without NB: no call of the port may wait.
                self._holds = True
            except BlockingIOError:
                pass
        return Advice.CAMPAIGN if self._holds else Advice.WAIT

    def may_lead(self) -> bool:
        return self._holds
