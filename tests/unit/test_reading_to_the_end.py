"""P20: how long a stream may read what is left for its savepoint goes by no clock of another machine."""

import time
from typing import Any

import pytest

from eventflink.streams.failures import StreamUnusable
from eventflink.taskexecutor.task_stream import read_to_end


class _Query:
    """A query that goes on until it is stopped."""

    has_ended = False
    is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True


class _Unread:
    """Records of which one is read between two looks, while there are any."""

    def __init__(self, count: int) -> None:
        self.left = count

    def count(self) -> int:
        self.left -= 1
        return max(0, self.left)


@pytest.mark.rule("P20")
@pytest.mark.parametrize("wall_s", [0.0, 4e9])
def test_a_wall_clock_that_is_wrong_by_decades_neither_fails_a_savepoint_nor_lets_it_wait_for_ever(
    monkeypatch: pytest.MonkeyPatch, wall_s: float
) -> None:
    monkeypatch.setattr(time, "time", lambda: wall_s)
    query: Any = _Query()
    unread: Any = _Unread(3)
    read_to_end(query, unread, 60)
    assert query.is_stopped
    query, unread = _Query(), _Unread(10**9)
    with pytest.raises(StreamUnusable, match="more records after 0 s"):
        read_to_end(query, unread, 0.05)
    assert query.is_stopped
