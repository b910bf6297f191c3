"""What a blob store serves has the digest that its name promises, and a half-written blob is never visible."""

import hashlib
import io
import os
from pathlib import Path

import pytest

from eventflink.blob.errors import BlobDamaged, BlobNotFound, BlobTooLarge, InvalidBlobKey
from eventflink.blob.store import BlobStore, blob_key

DATA = b"some code" * 1000


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def files(store: BlobStore) -> list[Path]:
    return [p for p in store.directory.rglob("*") if p.is_file()]


def test_what_was_put_comes_back_under_its_digest(store: BlobStore) -> None:
    stored = store.put(io.BytesIO(DATA), len(DATA))
    assert stored.key == hashlib.sha256(DATA).hexdigest() == blob_key(DATA)
    assert stored.size_bytes == len(DATA)
    assert store.get(stored.key) == DATA
    assert BlobStore(store.directory).get(stored.key) == DATA


def test_the_same_bytes_are_one_blob(store: BlobStore) -> None:
    assert store.put(io.BytesIO(DATA), 10**6) == store.put(io.BytesIO(DATA), 10**6)
    assert len(files(store)) == 1


def test_the_empty_blob_is_a_blob(store: BlobStore) -> None:
    assert store.get(store.put(io.BytesIO(b""), 1).key) == b""


def test_a_blob_above_the_limit_leaves_nothing(store: BlobStore) -> None:
    with pytest.raises(BlobTooLarge, match="8999"):
        store.put(io.BytesIO(DATA), len(DATA) - 1)
    assert files(store) == []


def test_an_aborted_write_leaves_nothing(store: BlobStore) -> None:
    with store.begin(10**6) as writer:
        writer.write(DATA)
    assert files(store) == []


@pytest.mark.parametrize("damage", [b"", DATA[:-1], DATA + b"!", b"X" + DATA[1:]])
def test_a_damaged_blob_is_detected_and_healed_by_uploading_it_again(store: BlobStore, damage: bytes) -> None:
    key = store.put(io.BytesIO(DATA), 10**6).key
    (path,) = files(store)
    path.write_bytes(damage)
    with pytest.raises(BlobDamaged, match=key):
        store.get(key)
    store.put(io.BytesIO(DATA), 10**6)
    assert store.get(key) == DATA


@pytest.mark.parametrize("key", ["", "..", "../../etc/passwd", "a" * 63, "A" * 64, "a" * 64 + "\n", "a" * 65, "g" * 64])
def test_what_is_no_key_never_becomes_a_path(store: BlobStore, key: str) -> None:
    for use in (store.get, store.delete):
        with pytest.raises(InvalidBlobKey):
            use(key)


def test_delete_tells_whether_the_blob_was_there(store: BlobStore) -> None:
    key = store.put(io.BytesIO(DATA), 10**6).key
    assert store.delete(key)
    assert not store.delete(key)
    with pytest.raises(BlobNotFound, match=key):
        store.get(key)


def test_uploads_abandoned_long_ago_are_removed_and_recent_ones_kept(store: BlobStore) -> None:
    old, new = store.directory / "incoming" / "blob-old", store.directory / "incoming" / "blob-new"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    BlobStore(store.directory)
    assert not old.exists()
    assert new.exists()
