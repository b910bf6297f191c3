"""The digest of a state that keeps changing: computed by a forked child, whose memory is the state as it was.

A digest walks through everything and would hold up decisions for as long. The child is of this process's own code and memory: it runs
nothing but the digest, writes it into a pipe and leaves without any clean-up. It ends with its parent, and by itself when its time is over.
"""

import contextlib
import gc
import os
import select
import signal
import time
from dataclasses import dataclass
from typing import Final, NoReturn

from eventflink.leadership.fold import Fold
from eventflink.processes import set_parent_death_signal

LIFETIME_S: Final = 60
"""A child lives no longer."""

_NICENESS: Final = 10
_READ_BYTES: Final = 256


class DigestFailed(Exception):
    """The child ended without a digest, or did not end in time; the message says which."""


@dataclass(frozen=True, slots=True)
class ForkedDigest:
    """A child under way. `result` is to be called once, and by a thread that may wait."""

    process_id: int
    read_fd: int

    def result(self, timeout_s: float) -> str:
        """Return the digest, and leave nothing of the child.

        Raises:
            DigestFailed: there is none.

        """
        text, deadline = b"", time.monotonic() + timeout_s
        try:
            while True:
                ready, _, _ = select.select([self.read_fd], [], [], max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise DigestFailed(f"the digest was not computed within {timeout_s:g} s")
                piece = os.read(self.read_fd, _READ_BYTES)
                if not piece:
                    break
                text += piece
        finally:
            os.close(self.read_fd)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process_id, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.process_id, 0)
        if not text:
            raise DigestFailed("the child that was to compute the digest ended without it")
        return text.decode()


def fork_digest(fold: Fold) -> ForkedDigest:
    """Begin to compute the digest of the state as it is now. Call it in the main thread, with which the child ends.

    Raises:
        OSError: the system gives no process, or no pipe.

    """
    read_fd, write_fd = os.pipe()
    try:
        process_id = os.fork()
    except OSError:
        os.close(read_fd)
        os.close(write_fd)
        raise
    if process_id == 0:
        _be_the_child(fold, write_fd)
    os.close(write_fd)
    return ForkedDigest(process_id, read_fd)


def _be_the_child(fold: Fold, write_fd: int) -> NoReturn:
    code = 1
    try:
        gc.disable()  # A collection would touch, and so copy, every page of the state.
        # The parent's handlers would tell the parent's event loop, whose descriptors the child shares.
        signal.set_wakeup_fd(-1)
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
            signal.signal(signum, signal.SIG_DFL)
        set_parent_death_signal()
        signal.alarm(LIFETIME_S)
        os.nice(_NICENESS)
        os.write(write_fd, fold.master.digest().encode())
        code = 0
    finally:
        os._exit(code)
