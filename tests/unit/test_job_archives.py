"""An archive is read as it was written or not at all; there is one for each job, whichever master writes it and however often."""

from pathlib import Path
from typing import Any

import pytest

from eventflink.blob.job_archives import ArchiveDamaged, ArchiveMissing, JobArchives, parse_archive, render_archive
from eventflink.blob.open_storage import open_storage
from tests.support.ftp_storage import ftp_server
from tests.support.small_disk import run_on_small_disk

ARCHIVE: dict[str, Any] = {
    "job_id": "job",
    "graph_digest": "abc",
    "submitted_at_ms": 1,
    "ended_at_ms": 2,
    "job": {"name": "Straßenbahn"},
}


def archives_in(place: Path | str, cache_size: int = 4) -> JobArchives:
    return JobArchives(open_storage(str(place)), cache_size)


def test_an_archive_comes_back_as_it_was_written(tmp_path: Path) -> None:
    written = archives_in(tmp_path / "new" / "folder").write(ARCHIVE)
    document = (tmp_path / "new" / "folder" / "job.json").read_bytes()
    assert (written.location, written.byte_count) == (str(tmp_path / "new" / "folder" / "job.json"), len(document))
    reader = archives_in(tmp_path / "new" / "folder")
    assert reader.read("job") == reader.read("job", written.digest) == ARCHIVE
    assert [path.name for path in (tmp_path / "new" / "folder").rglob("*") if path.is_file()] == ["job.json"]


def test_an_archive_behind_a_url_comes_back_as_well(tmp_path: Path) -> None:
    with ftp_server(tmp_path) as url:
        written = archives_in(f"{url}/archives").write(ARCHIVE)
        assert archives_in(f"{url}/archives").read("job", written.digest) == ARCHIVE
        with pytest.raises(ArchiveMissing, match="archive not found: job 'other'"):
            archives_in(f"{url}/archives").read("other")


def test_what_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ArchiveMissing, match=f"archive not found: job 'job' at {tmp_path}/job.json"):
        archives_in(tmp_path).read("job")


@pytest.mark.parametrize("place", ["first", "middle", "last", "cut", "empty", "longer"])
def test_no_damage_goes_unnoticed(tmp_path: Path, place: str) -> None:
    archives_in(tmp_path).write(ARCHIVE)
    path = tmp_path / "job.json"
    document = bytearray(path.read_bytes())
    if place in ("first", "middle", "last"):
        document[{"first": 0, "middle": len(document) // 2, "last": -1}[place]] ^= 1
    path.write_bytes(bytes({"cut": document[:-20], "empty": b"", "longer": document + b"}\n"}.get(place, document)))
    with pytest.raises(ArchiveDamaged, match=r"the archive of job 'job' at .*job\.json is damaged: it"):
        archives_in(tmp_path).read("job")


def test_a_whole_archive_that_is_another_than_the_log_names_is_not_believed(tmp_path: Path) -> None:
    digest = archives_in(tmp_path).write(ARCHIVE).digest
    (tmp_path / "job.json").write_bytes(render_archive(ARCHIVE | {"job": {"name": "forged"}})[0])
    with pytest.raises(ArchiveDamaged, match=f"and the log says that it is {digest}"):
        archives_in(tmp_path).read("job", digest)
    (tmp_path / "other.json").write_bytes(render_archive(ARCHIVE)[0])
    with pytest.raises(ArchiveDamaged, match="the archive of another job"):
        archives_in(tmp_path).read("other")


def test_the_same_job_has_one_archive_whoever_writes_it(tmp_path: Path) -> None:
    """The leader after the next may be of another version, which shows more of a job."""
    first = archives_in(tmp_path).write(ARCHIVE)
    assert archives_in(tmp_path).write(ARCHIVE | {"more": 1}) == first
    assert archives_in(tmp_path).read("job", first.digest) == ARCHIVE


def test_a_damaged_archive_and_that_of_an_earlier_job_of_the_same_id_are_written_anew(tmp_path: Path) -> None:
    archives_in(tmp_path).write(ARCHIVE)
    later = ARCHIVE | {"submitted_at_ms": 10, "ended_at_ms": 11}
    digest = archives_in(tmp_path).write(later).digest
    assert archives_in(tmp_path).read("job", digest) == later
    (tmp_path / "job.json").write_bytes(b"{}")
    assert archives_in(tmp_path).write(later).digest == digest
    assert archives_in(tmp_path).read("job", digest) == later


def test_what_was_verified_is_kept_within_bounds(tmp_path: Path) -> None:
    archives = archives_in(tmp_path, cache_size=2)
    digests = {name: archives.write(ARCHIVE | {"job_id": name}).digest for name in ("a", "b", "c")}
    for name, digest in digests.items():
        archives.read(name, digest)
    for path in tmp_path.glob("*.json"):
        path.unlink()
    assert archives.read("c", digests["c"])["job_id"] == "c"
    assert archives.read("b", digests["b"])["job_id"] == "b"
    with pytest.raises(ArchiveMissing):
        archives.read("a", digests["a"])
    with pytest.raises(ArchiveMissing):
        archives.read("b")  # Without a digest of the log nothing but the file counts.


def test_what_is_written_is_the_same_for_every_writer() -> None:
    document, digest = render_archive(ARCHIVE)
    assert render_archive(dict(ARCHIVE)) == (document, digest)
    assert parse_archive(document, "job", digest) == (ARCHIVE, digest)


ON_A_FULL_DISK = """
from pathlib import Path
from eventflink.blob import BlobStorageFailed
from eventflink.blob.job_archives import JobArchives
from eventflink.blob.local_storage import LocalStorage
try:
    JobArchives(LocalStorage(Path(sys.argv[1])), 0).write({"job_id": "job", "text": "x" * 100_000})
except BlobStorageFailed as error:
    print(error)
print([path.name for path in Path(sys.argv[1]).rglob("*") if path.is_file()])
"""


def test_a_disk_that_is_full_is_named_and_nothing_is_left_on_it(tmp_path: Path) -> None:
    said, left = run_on_small_disk(tmp_path, ON_A_FULL_DISK)
    assert said.startswith(f"{tmp_path}/incoming: No space left on device (")
    assert left == "[]"
