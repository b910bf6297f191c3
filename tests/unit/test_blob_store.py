"""What a blob store serves has the digest that its name promises, and a half-written blob is never visible: on every kind of storage."""

import hashlib
import io
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import pytest

from eventflink.blob import BlobDamaged, BlobNotFound, BlobStorageFailed, BlobStorageUnusable, BlobTooLarge, InvalidBlobKey
from eventflink.blob.fsspec_storage import FsspecStorage, modified_of
from eventflink.blob.keys import BlobKind, blob_key, digest_of, kind_of
from eventflink.blob.local_storage import LocalStorage
from eventflink.blob.open_storage import open_storage
from eventflink.blob.storage import Storage
from eventflink.blob.store import BlobPlace, BlobStore
from tests.support.ftp_storage import ftp_server

DATA = b"some code" * 1000
NO_KEYS = [
    "",
    "..",
    "../../etc/passwd",
    "a" * 63,
    "A" * 64,
    "a" * 64 + "\n",
    "a" * 65,
    "g" * 64,
    f"t-{'a' * 64}",
    f"t-{'a' * 64}-../../../../../..",
]


@pytest.fixture(params=["directory", "file URL", "fsspec file", "fsspec memory", "fsspec ftp"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    match request.param:
        case "directory":
            yield open_storage(str(tmp_path / "blobs"))
        case "file URL":
            yield open_storage(f"file://{tmp_path}/blobs")
        case "fsspec file":
            yield FsspecStorage(f"file://{tmp_path}/blobs")
        case "fsspec memory":  # Within one process it is a storage like any other.
            yield FsspecStorage(f"memory://{uuid.uuid4().hex}/blobs")
        case _:
            with ftp_server(tmp_path / "ftp") as url:
                yield open_storage(f"{url}/blobs")


@pytest.fixture
def store(storage: Storage) -> BlobStore:
    return BlobStore(storage)


@pytest.fixture
def local(tmp_path: Path) -> BlobStore:
    return BlobStore(LocalStorage(tmp_path / "blobs"))


def names(store: BlobStore) -> list[str]:
    return [file.name for file in store.storage.list()]


def put(store: BlobStore, data: bytes = DATA, kind: BlobKind = BlobKind.PERMANENT) -> str:
    return store.put(io.BytesIO(data), 10**6, kind).key


def overwrite(store: BlobStore, data: bytes, tmp_path: Path) -> None:
    """Damage the only blob, whatever it lies on."""
    (name,) = names(store)
    source = Path(store.storage.spool or tmp_path) / "damage"
    source.write_bytes(data)
    store.storage.place(source, name)


def test_what_was_put_comes_back_under_its_digest(store: BlobStore) -> None:
    stored = store.put(io.BytesIO(DATA), len(DATA))
    assert stored.key == hashlib.sha256(DATA).hexdigest() == blob_key(DATA)
    assert stored.size_bytes == len(DATA)
    assert store.get(stored.key) == DATA
    assert BlobStore(store.storage).get(stored.key) == DATA


def test_the_same_bytes_are_one_permanent_blob_and_lie_under_their_digest(store: BlobStore) -> None:
    key = put(store)
    assert put(store) == key
    assert names(store) == [f"{key[:2]}/{key}"]


def test_each_transient_upload_is_a_blob_of_its_own(store: BlobStore) -> None:
    first, second = put(store, kind=BlobKind.TRANSIENT), put(store, kind=BlobKind.TRANSIENT)
    assert first != second
    assert digest_of(first) == digest_of(second) == blob_key(DATA)
    assert kind_of(first) is BlobKind.TRANSIENT
    assert store.delete(first)
    assert not store.delete(first)
    assert store.get(second) == DATA
    with pytest.raises(BlobNotFound):  # A permanent blob with these bytes there is not.
        store.get(blob_key(DATA))


def test_the_empty_blob_is_a_blob(store: BlobStore) -> None:
    assert store.get(put(store, b"")) == b""


def test_a_blob_above_the_limit_leaves_nothing(store: BlobStore) -> None:
    with pytest.raises(BlobTooLarge, match="8999"):
        store.put(io.BytesIO(DATA), len(DATA) - 1)
    assert names(store) == []


def test_an_aborted_write_leaves_nothing(store: BlobStore) -> None:
    with store.begin(10**6) as writer:
        writer.write(DATA)
    assert names(store) == []


@pytest.mark.parametrize("damage", [b"", DATA[:-1], DATA + b"!", b"X" + DATA[1:]])
def test_a_damaged_blob_is_detected_and_healed_by_uploading_it_again(store: BlobStore, damage: bytes, tmp_path: Path) -> None:
    key = put(store)
    overwrite(store, damage, tmp_path)
    with pytest.raises(BlobDamaged, match=key):
        store.get(key)
    put(store)
    assert store.get(key) == DATA


def test_a_damaged_transient_blob_is_detected(store: BlobStore, tmp_path: Path) -> None:
    key = put(store, kind=BlobKind.TRANSIENT)
    overwrite(store, DATA[1:], tmp_path)
    with pytest.raises(BlobDamaged, match=key):
        store.get(key)


@pytest.mark.parametrize("key", NO_KEYS)
def test_what_is_no_key_never_becomes_a_path(local: BlobStore, key: str) -> None:
    for use in (local.get, local.delete, local.condemn, local.restore):
        with pytest.raises(InvalidBlobKey):
            use(key)


def test_delete_tells_whether_the_blob_was_there(store: BlobStore) -> None:
    key = put(store)
    assert store.delete(key)
    assert not store.delete(key)
    with pytest.raises(BlobNotFound, match=key):
        store.get(key)


def test_a_condemned_blob_is_read_until_it_is_deleted_and_can_be_brought_back(store: BlobStore) -> None:
    key = put(store)
    assert store.condemn(key)
    assert not store.condemn(key)
    assert names(store) == [f"condemned/{key[:2]}/{key}"]
    assert store.get(key) == DATA
    assert store.restore(key)
    assert not store.restore(key)
    assert names(store) == [f"{key[:2]}/{key}"]
    store.condemn(key)
    assert store.delete(key, BlobPlace.CONDEMNED)
    with pytest.raises(BlobNotFound):
        store.get(key)


def test_the_bytes_of_all_files_are_counted(store: BlobStore) -> None:
    assert store.usage() == (0, {})
    for _ in range(2):
        put(store)
    assert store.usage() == (len(DATA), {"": len(DATA)})


def test_the_bytes_of_each_job_s_blobs_are_counted_wherever_they_lie_and_by_every_master(store: BlobStore) -> None:
    shared, transient = put(store), put(store, b"log", kind=BlobKind.TRANSIENT)
    put(store, b"nobody's")
    for job_id in ("a", "b.c_d-1", "a"):
        store.note_owner(shared, job_id)
    store.note_owner(transient, "a")
    assert BlobStore(store.storage).usage() == (len(DATA) + 3 + 8, {"a": len(DATA) + 3, "b.c_d-1": len(DATA), "": 8})
    store.condemn(shared)
    store.delete(transient)
    assert store.usage().bytes_by_job == {"a": len(DATA), "b.c_d-1": len(DATA), "": 8}


def test_an_upload_is_dated_by_the_clock_of_the_storage(store: BlobStore) -> None:
    before = store.storage.now_ms()
    put(store)
    ((_, modified_ms, _),) = store.storage.list()
    after = store.storage.now_ms()
    assert before is not None
    assert modified_ms is not None
    assert after is not None
    assert before <= modified_ms <= after
    assert abs(after - time.time() * 1000) < 60_000
    assert names(store) == [f"{blob_key(DATA)[:2]}/{blob_key(DATA)}"]  # Reading the clock leaves nothing.


def test_uploading_again_begins_the_age_anew(local: BlobStore) -> None:
    key = put(local)
    ((name, _, _),) = local.storage.list()
    os.utime(Path(local.storage.location) / name, (0, 0))
    put(local)
    (entry,) = local.entries()
    assert (entry.key, entry.place) == (key, BlobPlace.PERMANENT)
    assert entry.modified_ms is not None
    assert entry.modified_ms > 1_000_000


def test_the_listing_says_what_each_file_is_and_leaves_strangers_out(local: BlobStore, tmp_path: Path) -> None:
    permanent, transient, condemned = put(local), put(local, kind=BlobKind.TRANSIENT), put(local, b"old")
    local.condemn(condemned)
    local.note_owner(permanent, "job")
    (tmp_path / "blobs" / "incoming" / "blob-half").write_bytes(b"half")
    for stranger in (
        "README",
        "ab/cd",
        f"transient/{permanent[:2]}/{permanent}",
        f"zz/{permanent}",
        f"condemned/{transient}",
        f"owners/zz/{permanent}~job",
    ):
        path = tmp_path / "blobs" / stranger
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"?")
    assert {(e.key, e.place) for e in local.entries()} == {
        (permanent, BlobPlace.PERMANENT),
        (transient, BlobPlace.TRANSIENT),
        (condemned, BlobPlace.CONDEMNED),
        (f"{permanent}~job", BlobPlace.OWNER),
        ("blob-half", BlobPlace.INCOMING),
    }


def test_two_masters_share_one_storage_and_each_serves_what_the_other_took(store: BlobStore, storage: Storage) -> None:
    url = storage._url if isinstance(storage, FsspecStorage) else storage.location
    other = BlobStore(FsspecStorage(url) if isinstance(storage, FsspecStorage) else open_storage(url))
    key = put(store)
    assert other.get(key) == DATA
    assert other.delete(key)
    for _ in range(2):  # What one has seen of the storage is no reason not to look again.
        with pytest.raises(BlobNotFound):
            store.get(key)
        put(other)
        assert store.get(key) == DATA
        other.delete(key)
    assert names(store) == []


def test_threads_may_share_a_store(store: BlobStore) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for round_ in range(3):
                data = f"{number} {round_}".encode() * 5000
                assert store.get(put(store, data)) == data
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert len(names(store)) == 12


def test_a_connection_that_was_lost_is_made_anew(tmp_path: Path) -> None:
    with ftp_server(tmp_path / "ftp") as url:
        store = BlobStore(open_storage(f"{url}/blobs"))
        key = put(store)
        store.storage._threads.found[0].ftp.close()  # type: ignore[attr-defined]
        assert store.get(key) == DATA


def test_a_storage_that_is_gone_is_named_without_its_password(tmp_path: Path) -> None:
    with ftp_server(tmp_path / "ftp") as url:
        store = BlobStore(open_storage(f"{url}/blobs"))
    with pytest.raises(BlobStorageFailed, match=r"ftp://127\.0\.0\.1") as caught:
        store.get(blob_key(b""))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("memory://blobs", "memory of one process"),
        ("nothing://blobs", "cannot be used"),
        ("simplecache::s3://bucket/blobs", "chains file systems"),
        ("zip://blobs::file:///x.zip", "chains file systems"),
    ],
)
def test_what_cannot_be_a_shared_storage_is_refused_by_name(location: str, said: str) -> None:
    with pytest.raises(BlobStorageUnusable, match=f"blob.storage.directory: .*{said}"):
        open_storage(location)


NOON = datetime(2024, 5, 6, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "information",
    [
        {"mtime": NOON.timestamp()},
        {"mtime": NOON},
        {"LastModified": NOON},
        {"LastModified": NOON.replace(tzinfo=None)},
        {"last_modified": NOON},
        {"updated": "2024-05-06T12:00:00.000Z"},
        {"modify": "20240506120000"},
        {"modify": "20240506120000.000"},
        {"modificationTime": int(NOON.timestamp() * 1000)},
    ],
)
def test_the_time_of_a_file_is_read_as_each_file_system_tells_it(information: dict[str, Any]) -> None:
    assert modified_of(information) == int(NOON.timestamp() * 1000)


@pytest.mark.parametrize("information", [{}, {"modify": "May 06 12:00"}, {"mtime": None}])
def test_a_time_that_is_not_told_is_none(information: dict[str, Any]) -> None:
    assert modified_of(information) is None


def test_a_storage_that_cannot_rename_over_a_file_still_takes_a_blob_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = BlobStore(FsspecStorage(f"file://{tmp_path}/blobs"))
    rename: Callable[..., None] = fsspec.implementations.local.LocalFileSystem.mv

    def strict(self: Any, source: str, target: str, **more: Any) -> None:
        if self.exists(target):
            raise FileExistsError(target)
        rename(self, source, target, **more)

    monkeypatch.setattr(fsspec.implementations.local.LocalFileSystem, "mv", strict)
    key = put(store)
    assert put(store) == key
    assert store.get(key) == DATA
    assert len(names(store)) == 1


def test_a_master_loads_no_library_for_storages_and_metrics_that_it_does_not_have(
    tmp_path: Path,
) -> None:
    script = (
        "import sys\nimport eventflink.entrypoint.master_process\nfrom eventflink.blob.open_storage import open_storage\n"
        "open_storage(sys.argv[1])\nprint(*sorted({'fsspec', 'prometheus_client'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == []
