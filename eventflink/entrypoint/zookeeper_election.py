"""`high-availability.type: zookeeper`: whose node is the first below `<path.root>/<cluster.id>/election` may lead.

Each master that takes part has an ephemeral sequential node there, which ZooKeeper removes with its session. One thread keeps the nodes as
they have to be: after every change it reads them again and does what is missing, so that neither a lost answer nor a lost watch matters.
The port's methods only read and set flags. The rule: from the moment the connection is doubtful this master does not hold the
leadership, and a master that does not ask for it keeps no place. What two masters decide who both believe to lead, the log's epoch
fences (P1).
"""

import contextlib
import logging
import math
import re
import threading
import time
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, KazooException, NoNodeError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.states import KazooState, KeeperState, WatchedEvent

from eventflink.leadership.election import STUCK_LEASES, Advice, Election
from eventflink.model.backoff import Backoff
from eventflink.model.configuration import Configuration, ConfigurationError

_logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 15.0
REQUEST_TIMEOUT_S: Final = 10.0
CLOSE_TIMEOUT_S: Final = 5.0
HANDSHAKE_TIMEOUT_S: Final = 3.0
"""A server that takes a connection and does not answer is given up after about so long."""

RECHECK_S: Final = 5.0
"""The nodes are read again after so long, also when no watch fired."""

FIRST_BACKOFF_S: Final = 0.1
MAX_BACKOFF_S: Final = 2.0
ASKING_LEASES: Final = 2
"""A master that has not asked for so many leases, nor for a session's time, is behind the log or hangs: it keeps no place."""

MAX_STEPS: Final = 16
"""So many changes in a row are made before the thread waits; three are enough unless others interfere."""

_NODE = re.compile(r"(.*)-(\d{10})")
_ROOT = re.compile(r"(/[^/\s]+)+")


class ZooKeeperElection(Election):
    """The service and its port. Between `begin` and `end` it has a place in the line; each `begin` takes a new one, at the end."""

    def __init__(self, configuration: Configuration, incarnation: str) -> None:
        """Connect to nothing yet.

        Raises:
            ConfigurationError: the address or the path is not valid.

        """
        self._quorum = configuration.zookeeper_quorum
        root = configuration.zookeeper_root.rstrip("/")
        if root and not _ROOT.fullmatch(root):
            raise ConfigurationError(f"invalid high-availability.zookeeper.path.root: '{root}'; give a path such as /eventflink")
        self._path = f"{root}/{configuration.cluster_id}/election"
        self._name = configuration.master_id.encode()
        self._incarnation = incarnation
        self._stuck_timeout_ms = STUCK_LEASES * configuration.lease_timeout_ms
        self._session_timeout_ms = configuration.zookeeper_session_timeout_ms
        self._asking_timeout_s = max(self._session_timeout_ms, ASKING_LEASES * configuration.lease_timeout_ms) / 1000
        try:
            self._client = self._make_client()
        except ValueError as error:
            raise ConfigurationError(f"invalid high-availability.zookeeper.quorum: '{self._quorum}'; give host:port,…: {error}") from error
        self._generation = 0
        self._wanted = 0
        """The generation that has to have a node; 0: none. Written by the master's loop alone."""
        self._asked_s = 0.0
        """When the master last asked, on the monotonic clock."""
        self._granted_ms = 0
        self._is_eviction_wanted = False
        self._connection = 0
        """Counts the changes of the connection's state. Written by kazoo's thread alone."""
        self._held: tuple[int, int] | None = None
        """The generation whose node was seen to be the first, and on which connection. Written by the thread of `_run` alone."""
        self._was_held = False
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def _make_client(self) -> KazooClient:
        # kazoo waits for the answer to a handshake for the session's time divided by the number of servers. A server that starts
        # can take a connection and never answer it, and the session that waits may own the first node: so each is named several times.
        servers = self._quorum.partition("/")[0].count(",") + 1
        copies = math.ceil(self._session_timeout_ms / 1000 / (HANDSHAKE_TIMEOUT_S * servers))
        client = KazooClient(
            _repeated(self._quorum, copies),
            timeout=self._session_timeout_ms / 1000,
            handler=SequentialThreadingHandler(),
            connection_retry={"max_tries": -1, "delay": FIRST_BACKOFF_S, "max_delay": MAX_BACKOFF_S},
        )
        client.add_listener(self._on_connection)
        return client

    # -- the service -----------------------------------------------------------------------------------------------

    @property
    def election(self) -> Election:
        """The port."""
        return self

    def start(self) -> None:
        """Connect, and begin to keep the nodes.

        Raises:
            TimeoutError: ZooKeeper does not answer.
            OSError: it answers and refuses.

        """
        try:
            self._client.start(timeout=CONNECT_TIMEOUT_S)
            self._ask(self._client.ensure_path_async(self._path))
        except KazooTimeoutError as error:
            raise TimeoutError(
                f"no ZooKeeper answered at {self._quorum} within {CONNECT_TIMEOUT_S:.0f} s (high-availability.zookeeper.quorum)"
            ) from error
        except KazooException as error:
            raise OSError(f"the ZooKeeper at {self._quorum} does not take the node {self._path}: {error!r}") from error
        _logger.info("ElectionStarted quorum=%s path=%s session_timeout_ms=%d", self._quorum, self._path, self._session_timeout_ms)
        self._thread = threading.Thread(target=self._run, name="zookeeper-election", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the session: ZooKeeper removes its node at once."""
        self._wanted = 0
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(CLOSE_TIMEOUT_S)
        try:
            self._client.stop()
            self._client.close()
        except (KazooException, OSError) as error:
            _logger.warning("ElectionNotClosed error=%r", error)  # Its node goes when the session's time is over.

    # -- the port: called by the master's loop ---------------------------------------------------------------------

    def granted(self, epoch: int, now_ms: int) -> None:  # noqa: ARG002 - the port's signature
        """Give the present leader the time to decide what waits."""
        self._granted_ms = now_ms

    def begin(self, now_ms: int) -> None:
        """Get in line."""
        self._granted_ms = now_ms
        self._is_eviction_wanted = False
        self._asked_s = time.monotonic()
        self._generation += 1
        self._wanted = self._generation
        self._wake.set()

    def end(self) -> None:
        """Give the place in the line back."""
        self._wanted = 0
        self._wake.set()

    def advise(self, stuck_since_ms: int | None, now_ms: int) -> Advice:
        """Campaign while the first node is this master's; the next in line removes the node of a leader that stopped deciding."""
        if self.may_lead():
            return Advice.CAMPAIGN
        if stuck_since_ms is not None and now_ms - max(stuck_since_ms, self._granted_ms) >= self._stuck_timeout_ms:
            self._granted_ms = now_ms
            self._is_eviction_wanted = True
            self._wake.set()
        return Advice.WAIT

    def may_lead(self) -> bool:
        """Tell whether the first node is this master's, on a connection that is not doubtful."""
        self._asked_s = time.monotonic()
        held = self._held
        return held is not None and held == (self._wanted, self._connection)

    # -- kazoo's threads -------------------------------------------------------------------------------------------

    def _on_connection(self, state: str) -> None:
        """Hold nothing until the nodes were read again."""
        self._connection += 1
        self._is_eviction_wanted = False
        if state == KazooState.CONNECTED:
            _logger.info("ElectionConnected session=%s", self._session())
        elif not self._closing.is_set():
            _logger.warning("ElectionConnectionDoubtful state=%s held=%s", state, self._was_held)
        self._wake.set()

    def _on_change(self, event: WatchedEvent) -> None:  # noqa: ARG002 - kazoo's signature
        self._wake.set()

    # -- the thread that keeps the nodes ---------------------------------------------------------------------------

    def _run(self) -> None:
        backoff = Backoff(FIRST_BACKOFF_S, MAX_BACKOFF_S)
        while not self._closing.is_set():
            self._wake.clear()
            try:
                for _ in range(MAX_STEPS):
                    if not self._step():
                        break
                backoff.reset()
                self._wake.wait(min(RECHECK_S, self._asking_timeout_s / 2))
            except Exception as error:  # noqa: BLE001 - a thread that died would leave a leadership held for ever
                self._note(None)
                if isinstance(error, ConnectionLoss | SessionExpiredError | KazooTimeoutError):
                    _logger.info("ElectionInterrupted error=%r", error)
                elif not self._closing.is_set():
                    _logger.warning("ElectionFailed path=%s error=%r", self._path, error)
                self._closing.wait(backoff.next())

    def _step(self) -> bool:
        """Do one thing that is missing; tell whether there may be more."""
        is_asking = time.monotonic() - self._asked_s <= self._asking_timeout_s
        connection, wanted, session = self._connection, self._wanted if is_asking else 0, self._session()
        if not session:
            self._note(None)
            self._revive()
            return False
        line = self._line()
        prefix = f"{self._incarnation}-{session}-{wanted}"
        stale = [node for node in line if node.startswith(f"{self._incarnation}-") and (not wanted or node[:-11] != prefix)]
        if stale:
            self._note(None)
            for node in stale:
                self._remove(node)
                _logger.info("ElectionGivenBack node=%s reason=%s", node, "term-ended" if is_asking else "the-master-does-not-ask")
            return True
        place = next((n for n, node in enumerate(line) if node[:-11] == prefix), -1)
        if wanted and place < 0:
            self._note(None)
            self._ask(self._client.create_async(f"{self._path}/{prefix}-", self._name, ephemeral=True, sequence=True))
            return True
        self._note((wanted, connection) if place == 0 else None)
        return self._evict(line, place)

    def _revive(self) -> None:
        """Put another client in the place of one that has given up: what kazoo does not expect ends its thread."""
        client = self._client
        if client.client_state not in (KeeperState.CLOSED, KeeperState.AUTH_FAILED) or self._closing.is_set():
            return
        _logger.warning("ElectionClientReplaced state=%s", client.client_state)
        client.remove_listener(self._on_connection)
        client.stop()
        client.close()
        self._client = self._make_client()
        self._client.start_async().wait(MAX_BACKOFF_S)  # Later it connects by itself.

    def _evict(self, line: list[str], place: int) -> bool:
        """Remove the first node if that is asked for, and this master comes next."""
        if not self._is_eviction_wanted:
            return False
        self._is_eviction_wanted = False
        if place != 1:
            return False
        self._remove(line[0])
        _logger.warning("ElectionEvicted node=%s reason=inputs-wait-and-nobody-decides", line[0])
        return True

    def _line(self) -> list[str]:
        """Return the nodes in the order of their numbers, and be woken when they change."""
        try:
            found = self._ask(self._client.get_children_async(self._path, watch=self._on_change))
        except NoNodeError:  # An operator removed it.
            self._ask(self._client.ensure_path_async(self._path))
            found = self._ask(self._client.get_children_async(self._path, watch=self._on_change))
        return sorted((node for node in found if _NODE.fullmatch(node)), key=lambda node: int(node[-10:]))

    def _remove(self, node: str) -> None:
        with contextlib.suppress(NoNodeError):
            self._ask(self._client.delete_async(f"{self._path}/{node}"))

    def _session(self) -> str:
        """Return the id of the session in hexadecimal; empty: there is no connection."""
        client_id = self._client.client_id
        return f"{client_id[0]:x}" if client_id is not None and client_id[0] else ""

    def _ask(self, result: Any) -> Any:
        """Wait for an answer, for a bounded time.

        Raises:
            KazooException: ZooKeeper's answer.
            KazooTimeoutError: there was none.

        """
        return result.get(timeout=REQUEST_TIMEOUT_S)  # A connection that is lost answers with an error before that.

    def _note(self, held: tuple[int, int] | None) -> None:
        self._held = held
        if (held is not None) != self._was_held:
            self._was_held = held is not None
            _logger.info("%s path=%s", "ElectionWon" if self._was_held else "ElectionLost", self._path)


def _repeated(quorum: str, copies: int) -> str:
    """Return the servers of `host:port,…/chroot` so many times."""
    servers, slash, chroot = quorum.partition("/")
    return ",".join([servers] * copies) + slash + chroot
