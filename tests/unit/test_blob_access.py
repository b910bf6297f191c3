"""A task gets its code from whichever master leads, and does not wait where waiting cannot help."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventflink.blob import BlobNotFound, BlobUnavailable
from eventflink.taskexecutor import blob_access
from eventflink.taskexecutor.blob_access import fetch_blob, note_blob_server, noted_blob_server
from tests.support.task_host import Archives


@pytest.fixture
def archives() -> Iterator[Archives]:
    running = Archives()
    yield running
    running.server.shutdown()
    running.server.server_close()


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_the_newest_note_counts(tmp_path: Path) -> None:
    assert noted_blob_server(tmp_path) == ""
    for address in ("a:1", "b:2"):
        note_blob_server(tmp_path, address)
        assert noted_blob_server(tmp_path) == address
    assert [path.name for path in tmp_path.iterdir()] == ["blob-server"]


def test_a_server_that_is_gone_is_followed_by_the_one_that_is_noted(tmp_path: Path, archives: Archives, nobody: str) -> None:
    key = archives.add(code="pass")
    note_blob_server(tmp_path, archives.address)
    assert fetch_blob(nobody, key, tmp_path) == archives.blobs[key]


def test_the_wait_for_another_leader_is_bounded(tmp_path: Path, nobody: str) -> None:
    with pytest.raises(BlobUnavailable, match=nobody) as caught:
        fetch_blob(nobody, "0" * 64, tmp_path, timeout_s=0.1)
    assert caught.value.is_unreachable
    assert "if the leader is on another host, set jobmanager.rpc.address" in str(caught.value)


def test_what_another_leader_would_not_have_either_is_not_waited_for(
    tmp_path: Path, archives: Archives, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(_seconds: float) -> None:
        raise AssertionError("it waits")

    monkeypatch.setattr(blob_access, "time", type("NoSleep", (), {"monotonic": staticmethod(time.monotonic), "sleep": staticmethod(never)}))
    with pytest.raises(BlobNotFound):
        fetch_blob(archives.address, "0" * 64, tmp_path)
    key = archives.add(code="pass")
    archives.blobs[key] = b"damaged"
    with pytest.raises(BlobUnavailable, match="another digest") as caught:
        fetch_blob(archives.address, key, tmp_path)
    assert not caught.value.is_unreachable
