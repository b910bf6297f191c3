"""The inbox before a TaskExecutor's main loop: bounded for the threads that fill it."""

import threading

from eventflink.taskexecutor.kafka_links import Inbox
from eventflink.taskexecutor.protocol import Action


def _nothing(_now_ms: int) -> list[Action]:
    return []


def _other(_now_ms: int) -> list[Action]:
    return []


def test_who_is_faster_than_the_loop_waits_until_there_is_room_or_the_inbox_is_closed() -> None:
    inbox = Inbox(capacity=1)
    inbox.put_input(_nothing)
    waiting = threading.Thread(target=inbox.put_input, args=(_other,), daemon=True)
    waiting.start()
    assert inbox.take_inputs(10, 1) == [_nothing]
    assert inbox.take_inputs(10, 1) == [_other]
    waiting.join(10)
    inbox.put_input(_nothing)
    stuck = threading.Thread(target=inbox.put_input, args=(_nothing,), daemon=True)
    stuck.start()
    inbox.close()
    stuck.join(10)
    assert not stuck.is_alive()
