"""The inbox before a TaskExecutor's main loop: bounded for the threads that fill it, and never in the way of the loop that empties it."""

import threading
import time

from eventflink.taskexecutor.kafka_links import Inbox
from eventflink.taskexecutor.protocol import Action


def _nothing(_now_ms: int) -> list[Action]:
    return []


def _result(_now_ms: int) -> list[Action]:
    return []


def test_the_main_loop_can_tell_itself_a_result_when_the_inbox_is_full() -> None:
    """Nobody else would make room: a loop that waited here would wait for ever."""
    inbox = Inbox(capacity=2)
    assert inbox.try_put_input(_nothing)
    assert inbox.try_put_input(_nothing)
    assert not inbox.try_put_input(_nothing)
    inbox.put_result(_result)
    assert inbox.take_inputs(10, 1) == [_nothing, _nothing, _result]
    assert inbox.take_inputs(0, 1) == []


def test_a_result_is_not_waited_behind() -> None:
    inbox = Inbox()
    inbox.put_result(_result)
    started = time.monotonic()
    assert inbox.take_inputs(30, 256) == [_result]
    assert time.monotonic() - started < 15
    assert inbox.take_inputs(0, 256) == []


def test_who_is_faster_than_the_loop_waits_until_there_is_room_or_the_inbox_is_closed() -> None:
    inbox = Inbox(capacity=1)
    inbox.put_input(_nothing)
    waiting = threading.Thread(target=inbox.put_input, args=(_result,), daemon=True)
    waiting.start()
    assert inbox.take_inputs(10, 1) == [_nothing]
    assert inbox.take_inputs(10, 1) == [_result]
    waiting.join(10)
    inbox.put_input(_nothing)
    stuck = threading.Thread(target=inbox.put_input, args=(_nothing,), daemon=True)
    stuck.start()
    inbox.close()
    stuck.join(10)
    assert not stuck.is_alive()
