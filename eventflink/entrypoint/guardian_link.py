"""The master's side of its guardian: leaves its will there, and has another guardian started when one dies."""

import asyncio
import logging
import os
from collections.abc import Iterator

from eventflink.entrypoint.guardian import Will, line_of
from eventflink.events.codec import PayloadCodec
from eventflink.events.effects import LeaderDeath, LeaderHang
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.configuration import Configuration
from eventflink.processes.guardian_process import RESTART_INTERVAL_S, GuardianProcess
from eventflink.processes.shared_note import SharedNote

_logger = logging.getLogger(__name__)


class MasterGuardianLink:
    """Owns the guardian process; used by the event loop only. Without one the others wait for the lease, and nothing else is lost."""

    def __init__(self, configuration: Configuration, access: ClusterAccess, *, is_needed: bool) -> None:
        """Prepare; what the guardian has to say goes where the master's log goes. None is started where nobody would listen to it."""
        self._is_needed = is_needed
        arguments = ["--access", access.as_text()]
        arguments += ["--process-id", str(os.getpid()), "--timeout-ms", str(configuration.lease_timeout_ms)]
        self._note = SharedNote.make()
        arguments += ["--note", str(self._note.descriptor)]
        self._guardian = GuardianProcess("eventflink.entrypoint.guardian", arguments, self._known, descriptors=(self._note.descriptor,))
        self._codec = PayloadCodec("LeadershipEnvelope")
        """Without a seal, which comes last: only the guardian knows what was decided."""
        self._will: Will | None = None

    def leave_will(self, will: LeaderDeath | None) -> None:
        """Have it say this when the master ends; None: nothing."""
        self._will = None if will is None else self._will_of(will)
        self._guardian.write(line_of(self._will))

    def _will_of(self, will: LeaderDeath) -> Will:
        hang = LeaderHang(will.epoch, will.leader_id, will.deciding)
        return Will(will.epoch, self._codec.encode(will), self._codec.encode(hang))

    def note_deciding(self, name: str) -> None:
        """Let it know what the master decides now; empty: nothing. It costs a copy within memory."""
        self._note.write(name)

    def _known(self) -> Iterator[bytes]:
        yield line_of(self._will)

    async def run(self) -> None:
        """See that there is a guardian, where one is needed."""
        while self._is_needed:
            try:
                self._guardian.check()
            except OSError as error:
                _logger.warning("GuardianNotStarted error=%s", error)
            await asyncio.sleep(RESTART_INTERVAL_S)

    def close(self) -> None:
        """Let the guardian do what the will says, though the process still lives: it is not a leader any more, nor a candidate.

        A guardian that has something to say takes the time for it that it needs; one that has not is seen to end.
        """
        if self._will:
            self._guardian.let_go()
        else:
            self._guardian.close()
        self._note.close()
