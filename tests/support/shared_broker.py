"""One embedded broker for all pytest processes of a run: the first that asks has it started, and it ends when the last is gone.

It is for tests that leave a broker as it is. Its process is the child of none of them, since any of them may end before the others: each
holds a shared lock as long as it lives, and the broker's own process ends once it gets that lock for itself.
"""

import fcntl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from eventflink.local.embedded_broker import EmbeddedBroker
from eventflink.processes.file_lock import FileLock, locked, open_lock, try_lock
from eventflink.processes.log_files import last_lines

_TIMEOUT_S: Final = 180.0
_END_TIMEOUT_S: Final = 120.0
_LEASE: Final = "users.lock"
_ADDRESS: Final = "address"
_LOG: Final = "owner.log"
_ROOT: Final = Path(__file__).parents[2]


@contextmanager
def shared_broker(directory: Path) -> Iterator[str]:
    """Give the bootstrap servers of the broker that all who name this directory share."""
    busy = TimeoutError(f"{directory}: no other process of this run has started the broker within {_TIMEOUT_S:.0f} s")
    with FileLock(directory / _LEASE, _END_TIMEOUT_S, shared=True):
        with locked(directory / "start.lock", _TIMEOUT_S, busy):
            if not (directory / _ADDRESS).exists():
                _start(directory)
        yield (directory / _ADDRESS).read_text()


def _start(directory: Path) -> None:
    with (directory / _LOG).open("ab") as log:
        command = [sys.executable, "-m", __name__, str(directory)]
        owner = subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    deadline = time.monotonic() + _TIMEOUT_S
    while not (directory / _ADDRESS).exists():
        said = f"the broker of this run did not start:\n{last_lines(directory / _LOG)}"
        assert owner.poll() is None, said
        assert time.monotonic() < deadline, said
        time.sleep(0.05)


def main(directory: Path) -> None:
    """Have the broker run as long as somebody uses it."""
    users = open_lock(directory / _LEASE)
    # It is not started again on its data: no broker has to be given up soon, and one that a busy host lets wait is not.
    with EmbeddedBroker(directory / "broker", further={"broker.session.timeout.ms": "60000"}) as broker:
        written = directory / f"{_ADDRESS}.new"
        written.write_text(broker.bootstrap_servers)
        written.replace(directory / _ADDRESS)
        while broker.is_running and not try_lock(users, fcntl.LOCK_EX):
            time.sleep(0.2)
        (directory / _ADDRESS).unlink()  # Whoever comes now waits for the lock, and starts another.


if __name__ == "__main__":
    main(Path(sys.argv[1]))
