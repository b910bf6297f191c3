"""The release of a session on a Spark that does not say what it runs (4.0, 4.1): what was interrupted is waited for (P15)."""

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc
import pytest
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

from eventflink.taskexecutor.spark_release import ReleaseFailed, release_session

SESSION: Final = "00000000-0000-4000-8000-00000000000a"
FIRST: Final = "11111111-1111-4111-8111-111111111111"
SECOND: Final = "22222222-2222-4222-8222-222222222222"
SOON_S: Final = 0.3
LONG_S: Final = 20.0

CANCELED: Final = "[OPERATION_CANCELED] Operation has been canceled. SQLSTATE: HY008"
DISCONNECTED: Final = "[INVALID_CURSOR.DISCONNECTED] The cursor is invalid. The cursor has been disconnected by the server."
NOT_REATTACHABLE: Final = "[INVALID_CURSOR.NOT_REATTACHABLE] The cursor is invalid. The cursor is not reattachable."
TAKEN: Final = "[INVALID_CURSOR.POSITION_NOT_AVAILABLE] The cursor is invalid. The cursor position id {} is no longer available at index 1."
CLOSED: Final = f"[INVALID_HANDLE.SESSION_CLOSED] The handle {SESSION} is invalid. Session was closed."


@dataclasses.dataclass
class Operation:
    """What the server says of an operation whose answers are asked for."""

    taken: list[str] = dataclasses.field(default_factory=list)
    """The answers that its client has taken, which the server does not have any more."""
    kept: list[str] = dataclasses.field(default_factory=list)
    """Those that it has."""
    is_complete: bool = False
    """Whether the last one of them says that the answer is whole."""
    interruptions: list[str] = dataclasses.field(default_factory=list)
    """What is said instead, once each, before anything else."""
    has_ended: threading.Event = dataclasses.field(default_factory=threading.Event)
    end: str = CANCELED


class OldSpark(base_pb2_grpc.SparkConnectServiceServicer):  # type: ignore[misc]
    """A Spark without `GetStatus`, which names an operation in the answer of the first interrupt that stops it, and closes one session."""

    def __init__(self) -> None:
        self.operations: dict[str, Operation] = {}
        self.unnamed: list[str] = []
        """Those that the next interrupt stops."""
        self.settings: dict[str, str] = {}
        self.calls: list[str] = []
        self.stream_s = LONG_S
        """After how long the server ends answers that go on: the client is to ask for the rest."""
        self.fault = ""
        """What it says to who asks for settings."""
        self.cut: grpc.StatusCode | None = None
        """How the connection fails for who asks for answers."""

    def GetStatus(self, _request: Any, context: Any) -> Any:  # noqa: N802 - Spark's name
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found: spark.connect.SparkConnectService/GetStatus")

    def Interrupt(self, _request: Any, _context: Any) -> Any:  # noqa: N802 - Spark's name
        self.calls.append("Interrupt")
        named, self.unnamed = self.unnamed, []
        return base_pb2.InterruptResponse(session_id=SESSION, interrupted_ids=named)

    def Config(self, request: Any, context: Any) -> Any:  # noqa: N802 - Spark's name
        if self.fault:
            _fail(context, self.fault)
        kind = request.operation.WhichOneof("op_type")
        self.calls.append(kind)
        pairs = []
        if kind == "set":
            self.settings |= {pair.key: pair.value for pair in request.operation.set.pairs}
        else:
            prefix = request.operation.get_all.prefix
            pairs = [base_pb2.KeyValue(key=key.removeprefix(prefix), value=value) for key, value in self.settings.items() if prefix in key]
        return base_pb2.ConfigResponse(session_id=SESSION, pairs=pairs)

    def ReattachExecute(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802 - Spark's name
        self.calls.append(f"ReattachExecute {request.last_response_id}".strip())
        if self.cut is not None:
            context.abort(self.cut, "Received RST_STREAM with error code 2")
        operation = self.operations.get(request.operation_id)
        if operation is None:
            _fail(context, f"[INVALID_HANDLE.OPERATION_NOT_FOUND] The handle {request.operation_id} is invalid. Operation not found.")
            return
        if operation.interruptions:
            _fail(context, operation.interruptions.pop(0))
        answers = [*operation.taken, *operation.kept]
        position = answers.index(request.last_response_id) + 1 if request.last_response_id else 0
        if position < len(operation.taken) and not operation.has_ended.is_set():
            _fail(context, TAKEN.format(answers[position]))
        for answer in answers[position:]:
            is_last = operation.is_complete and answer == answers[-1]
            whole = base_pb2.ExecutePlanResponse.ResultComplete() if is_last else None
            yield base_pb2.ExecutePlanResponse(session_id=SESSION, response_id=answer, result_complete=whole)
        until_s = time.monotonic() + self.stream_s
        while not operation.has_ended.wait(0.01):
            if not context.is_active() or time.monotonic() > until_s:
                return
        _fail(context, operation.end)

    def ReleaseSession(self, _request: Any, _context: Any) -> Any:  # noqa: N802 - Spark's name
        self.calls.append("ReleaseSession")
        return base_pb2.ReleaseSessionResponse(session_id=SESSION)


def _fail(context: Any, details: str) -> None:
    context.set_trailing_metadata((("grpc-status-details-bin", b"said by Spark"),))
    context.abort(grpc.StatusCode.INTERNAL, details)


@pytest.fixture
def old() -> OldSpark:
    return OldSpark()


@pytest.fixture
def remote(old: OldSpark) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(8))
    base_pb2_grpc.add_SparkConnectServiceServicer_to_server(old, server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    yield f"sc://localhost:{port}"
    for operation in old.operations.values():
        operation.has_ended.set()
    server.stop(0).wait(LONG_S)


def wait_until(fact: Callable[[], bool]) -> None:
    """Wait for what a release does in its own time."""
    deadline_s = time.monotonic() + LONG_S
    while not fact():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


class Releasing:
    """A release that goes on in a thread."""

    def __init__(self, remote: str, quiet_s: float = 0.0) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._release = self._pool.submit(release_session, remote, SESSION, LONG_S, quiet_s=quiet_s)

    def is_going_on(self) -> bool:
        time.sleep(SOON_S)
        return not self._release.done()

    def end(self) -> None:
        self._release.result(LONG_S)
        self._pool.shutdown()


@pytest.mark.rule("P15")
def test_a_session_is_closed_when_the_answers_of_all_that_was_interrupted_have_ended(old: OldSpark, remote: str) -> None:
    first, second = Operation(kept=["a"]), Operation()
    old.operations, old.unnamed = {FIRST: first, SECOND: second}, [FIRST, SECOND]
    releasing = Releasing(remote)
    assert releasing.is_going_on()
    first.has_ended.set()
    assert releasing.is_going_on()
    assert "ReleaseSession" not in old.calls
    second.end = "[DIVIDE_BY_ZERO] Division by zero."
    second.has_ended.set()
    releasing.end()
    assert old.calls[0] == "Interrupt"
    assert old.calls[-1] == "ReleaseSession"


def test_where_nothing_was_interrupted_and_nothing_is_noted_the_session_is_closed_at_once(old: OldSpark, remote: str) -> None:
    release_session(remote, SESSION, quiet_s=0.0)
    assert old.calls == ["Interrupt", "get_all", "ReleaseSession"]


@pytest.mark.rule("P15")
def test_what_a_releaser_has_interrupted_that_died_is_waited_for_by_the_next_one(old: OldSpark, remote: str) -> None:
    """The first one gives up, which leaves as much as its death does; no interrupt names the operation again."""
    operation = Operation()
    old.operations, old.unnamed = {FIRST: operation}, [FIRST]
    with pytest.raises(ReleaseFailed, match=f"session {SESSION} was interrupted, but 1 operations have not ended yet"):
        release_session(remote, SESSION, SOON_S, quiet_s=0.0)
    assert old.calls[:3] == ["Interrupt", "set", "get_all"], "it is noted before anything else"
    assert old.unnamed == []
    releasing = Releasing(remote)
    assert releasing.is_going_on()
    operation.has_ended.set()
    releasing.end()
    assert old.calls[-1] == "ReleaseSession"


@pytest.mark.rule("P15")
def test_what_is_interrupted_later_is_noted_and_waited_for_as_well(old: OldSpark, remote: str) -> None:
    first, second = Operation(), Operation()
    old.operations, old.unnamed = {FIRST: first, SECOND: second}, [FIRST]
    releasing = Releasing(remote, quiet_s=2 * SOON_S)
    assert releasing.is_going_on()
    old.unnamed = [SECOND]
    first.has_ended.set()
    assert releasing.is_going_on()
    assert releasing.is_going_on()
    assert releasing.is_going_on()
    assert len(old.settings) == 2
    second.has_ended.set()
    releasing.end()


@pytest.mark.rule("P15")
def test_what_another_releaser_notes_meanwhile_is_waited_for_as_well(old: OldSpark, remote: str) -> None:
    """Of two at the same moment one is told what they stop, and its note may come after the other one has looked first."""
    operation = Operation()
    old.operations = {FIRST: operation}
    releasing = Releasing(remote, quiet_s=10 * SOON_S)
    wait_until(lambda: "get_all" in old.calls)
    old.settings[f"eventflink.interrupted.{FIRST}"] = "true"
    assert releasing.is_going_on()
    assert releasing.is_going_on()
    operation.has_ended.set()
    releasing.end()


def test_an_operation_that_the_server_does_not_know_any_more_has_ended(old: OldSpark, remote: str) -> None:
    old.unnamed = [FIRST]
    release_session(remote, SESSION, quiet_s=0.0)
    assert old.calls == ["Interrupt", "set", "get_all", "ReattachExecute", "ReleaseSession"]


@pytest.mark.rule("P15")
def test_an_operation_whose_first_answers_were_taken_is_waited_for(old: OldSpark, remote: str) -> None:
    """The server does not give the first ones again; it names each, so the next one is asked for, to the last."""
    taken = [f"00000000-0000-4000-8000-{number:012d}" for number in range(5)]
    operation = Operation(taken, ["kept"])
    old.operations, old.unnamed = {FIRST: operation}, [FIRST]
    releasing = Releasing(remote)
    wait_until(lambda: f"ReattachExecute {taken[-1]}" in old.calls)
    operation.has_ended.set()
    releasing.end()
    assert [call for call in old.calls if "Reattach" in call] == ["ReattachExecute", *(f"ReattachExecute {answer}" for answer in taken)]


@pytest.mark.rule("P15")
@pytest.mark.parametrize("said", [DISCONNECTED, NOT_REATTACHABLE, TAKEN.format("<UNKNOWN>")])
def test_an_operation_whose_answers_cannot_be_had_now_is_asked_for_again(old: OldSpark, remote: str, said: str) -> None:
    """Its own client, which lives, has asked for the same ones; or the server gives them to nobody else."""
    operation = Operation(interruptions=[said] * 3)
    old.operations, old.unnamed = {FIRST: operation}, [FIRST]
    releasing = Releasing(remote)
    wait_until(lambda: operation.interruptions == [])
    operation.has_ended.set()
    releasing.end()


@pytest.mark.rule("P15")
def test_answers_that_the_server_ends_after_its_own_time_are_asked_for_from_there(old: OldSpark, remote: str) -> None:
    operation = Operation(kept=["a", "b"])
    old.operations, old.unnamed, old.stream_s = {FIRST: operation}, [FIRST], 0.05
    releasing = Releasing(remote)
    wait_until(lambda: "ReattachExecute b" in old.calls)
    operation.has_ended.set()
    releasing.end()


def test_an_operation_that_has_started_a_stream_has_ended_with_its_answer(old: OldSpark, remote: str) -> None:
    """An interrupt names it for the stream, which the server stops before the session is closed."""
    old.operations, old.unnamed = {FIRST: Operation(["0" * 8 + "-0000-4000-8000-" + "0" * 12], ["b"], is_complete=True)}, [FIRST]
    release_session(remote, SESSION, quiet_s=0.0)
    assert old.calls[-1] == "ReleaseSession"


def test_a_session_that_another_releaser_has_closed_meanwhile_is_released(old: OldSpark, remote: str) -> None:
    old.unnamed, old.fault = [FIRST], CLOSED
    release_session(remote, SESSION, quiet_s=0.0)


@pytest.mark.rule("P15")
@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL])
def test_an_error_of_the_connection_does_not_end_an_operation(old: OldSpark, remote: str, code: grpc.StatusCode) -> None:
    old.unnamed, old.cut = [FIRST], code
    with pytest.raises(ReleaseFailed, match=f"did not release session {SESSION}: Received RST_STREAM"):
        release_session(remote, SESSION, quiet_s=0.0)
    assert "ReleaseSession" not in old.calls
