"""A courier sends in order until each is taken, keeps nobody waiting, and has passed what it has passed."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from eventflink.notify import courier as courier_module
from eventflink.notify.courier import Courier
from eventflink.notify.notification import Notification
from eventflink.notify.senders import DeliveryFailed, Send
from tests.support.running_cluster import wait_until


def notification(number: int, receiver: str = "me") -> Notification:
    return Notification(f"key-{number}", number, (receiver,), "", "text", {})


class Receiver:
    """Takes what it is sent, unless it is away."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.is_away = False
        self.tries = count()
        self.refused = ""

    def send(self, each: Notification) -> None:
        if self.is_away:
            next(self.tries)
            raise DeliveryFailed("it is away")
        if each.key == self.refused:
            raise DeliveryFailed("it is no good", is_refused=True)
        self.taken.append(each.key)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Receiver:
    monkeypatch.setattr(courier_module, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(courier_module, "LONGEST_PAUSE_S", 0.002)
    return Receiver()


@pytest.fixture
def started() -> Iterator[Callable[[Send], Courier]]:
    """Start couriers, and end them."""
    made: list[Courier] = []

    def start(send: Send) -> Courier:
        made.append(Courier("me", send, 0))
        made[-1].start()
        return made[-1]

    yield start
    for each in made:
        each.end()


def test_what_is_offered_is_sent_in_order_and_passed(receiver: Receiver, started: Callable[[Send], Courier]) -> None:
    courier = started(receiver.send)
    for number in range(50):
        courier.offer(number, [notification(number), notification(number, "somebody else")])
    courier.offer(50, [])
    wait_until(lambda: courier.is_idle, "all are sent")
    assert receiver.taken == [f"key-{number}" for number in range(50)]
    assert courier.position == 51


def test_who_is_away_is_tried_again_and_has_passed_nothing_meanwhile(receiver: Receiver, started: Callable[[Send], Courier]) -> None:
    receiver.is_away = True
    courier = started(receiver.send)
    courier.offer(0, [])
    courier.offer(1, [notification(1)])
    courier.offer(2, [notification(2)])
    wait_until(lambda: courier.absence, "a try")
    away = courier.absence
    wait_until(lambda: next(receiver.tries) > 5, "some tries")
    assert (courier.position, receiver.taken) == (1, [])
    assert courier.absence == away
    assert away is not None
    assert away.reason == "it is away"
    receiver.is_away = False
    wait_until(lambda: courier.is_idle, "all are sent")
    assert courier.absence is None
    assert (courier.position, receiver.taken) == (3, ["key-1", "key-2"])


def test_what_is_refused_for_good_is_passed_over(receiver: Receiver, started: Callable[[Send], Courier]) -> None:
    receiver.refused = "key-0"
    courier = started(receiver.send)
    courier.offer(0, [notification(0)])
    courier.offer(1, [notification(1)])
    wait_until(lambda: courier.is_idle, "all are sent")
    assert receiver.taken == ["key-1"]


def test_a_defect_keeps_back_one_notification_and_says_so(receiver: Receiver, started: Callable[[Send], Courier], caplog: Any) -> None:
    def send(each: Notification) -> None:
        if each.key == "key-1":
            raise TypeError("a set is no JSON")
        receiver.send(each)

    courier = started(send)
    for number in range(3):
        courier.offer(number, [notification(number)])
    wait_until(lambda: courier.position == 3, "all are passed")
    assert receiver.taken == ["key-0", "key-2"]
    assert [each.message for each in caplog.records if each.exc_info] == ["NotificationDefect receiver=me key=key-1"]


def test_what_was_offered_before_is_passed_over(receiver: Receiver, started: Callable[[Send], Courier]) -> None:
    courier = started(receiver.send)
    for number in (0, 1, 0, 1, 2):
        courier.offer(number, [notification(number)])
    wait_until(lambda: courier.is_idle, "all are sent")
    assert receiver.taken == ["key-0", "key-1", "key-2"]


def test_what_there_is_no_room_for_is_offered_again_and_nothing_is_lost_or_sent_twice(
    receiver: Receiver, started: Callable[[Send], Courier], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier_module, "MOST_WAITING", 3)
    receiver.is_away = True
    courier = started(receiver.send)
    for number in range(10):
        courier.offer(number, [notification(number)])
    assert (courier.is_behind, courier.next_offset) == (True, 3)
    receiver.is_away = False
    wait_until(lambda: courier.is_idle, "what there was room for is sent")
    courier.catch_up()
    for number in range(10):
        wait_until(lambda: courier.has_room, "there is room")
        courier.offer(number, [notification(number)])
    wait_until(lambda: courier.is_idle, "all are sent")
    assert receiver.taken == [f"key-{number}" for number in range(10)]


def test_a_record_that_says_more_than_there_is_room_for_is_taken_when_nothing_waits(
    receiver: Receiver, started: Callable[[Send], Courier], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier_module, "MOST_WAITING", 3)
    courier = started(receiver.send)
    courier.offer(0, [notification(0)] * 9)
    assert not courier.is_behind
    wait_until(lambda: len(receiver.taken) == 9, "all are sent")


def test_who_is_away_keeps_nobody_from_ending(receiver: Receiver, started: Callable[[Send], Courier]) -> None:
    receiver.is_away = True
    courier = started(receiver.send)
    courier.offer(0, [notification(0)])
    wait_until(lambda: next(receiver.tries) > 2, "some tries")
    courier.end()
    assert courier.position == 0
