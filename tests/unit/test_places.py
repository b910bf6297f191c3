"""A place is a path of this host or a URL of a store: neither is ever taken for the other, and what is below it stays below it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eventflink.jobs import stored_files
from eventflink.jobs.published import FILE_LIST, find_damage, write_file_list
from eventflink.jobs.stored_files import (
    StoreFailed,
    find_files,
    names_below,
    names_in,
    on_this_host,
    opened,
    read_if_there,
    read_start,
    read_whole,
    remove_folder,
    write_whole,
)
from eventflink.model.attempts import AttemptId, OutputLocation
from eventflink.model.cluster_secret import secret_path
from eventflink.model.configuration import ConfigurationError, build_configuration
from eventflink.model.places import Place, in_one_spelling, is_url, parse_place
from eventflink.streams.failures import WorkingDirectoryUnfit
from eventflink.taskexecutor.lost_inputs import OpenedInput, OpenedInputs, failure_of
from eventflink.taskexecutor.task_files import checkpoint_place, output_place

KEY = "execution.working-directory"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("s3://bucket/a b/jobs/", "s3a://bucket/a b/jobs"),
        ("S3A://bucket", "s3a://bucket"),
        ("s3a://bucket//jobs//of", "s3a://bucket/jobs/of"),
        ("gs://bucket/jobs", "gs://bucket/jobs"),
        ("hdfs://name:9000/jobs", "hdfs://name:9000/jobs"),
        ("abfss://container@account.dfs.core.windows.net/jobs", "abfss://container@account.dfs.core.windows.net/jobs"),
        ("file:///with%20space/jobs", "/with space/jobs"),
        ("/with:colon/jobs", "/with:colon/jobs"),
    ],
)
def test_a_place_has_the_name_that_spark_has_for_it(text: str, place: str) -> None:
    found = build_configuration({KEY: text}, "f").working_place
    assert str(found) == f"{place}/eventflink"
    assert bool(found.scheme) == is_url(place)


@pytest.mark.parametrize(
    "text",
    [
        "ftp://host/jobs",
        "memory://jobs",
        "s3a:/bucket/jobs",
        "s3a://",
        "s3a:///jobs",
        "s3a://key:secret@bucket/jobs",
        "s3a://bucket/a/../b",
        "s3a://bucket/jobs?version=1",
        "zip::s3://bucket/jobs",
        "https://bucket.s3.amazonaws.com/jobs",
    ],
)
def test_a_url_of_another_kind_is_refused_by_the_key(text: str) -> None:
    """As a path it would be a folder of the current directory, which only this host has."""
    with pytest.raises(ConfigurationError, match=rf"^f: {KEY}: .*invalid place: ") as caught:
        build_configuration({KEY: text}, "f")
    assert "secret" not in str(caught.value)


def test_no_url_has_a_path() -> None:
    with pytest.raises(ValueError, match="is a URL, and no path"):
        _ = parse_place("s3a://bucket/jobs").path


def test_checkpoints_are_where_a_batch_is_noted_once() -> None:
    attempt = AttemptId("job", "vertex", 0, 1)
    assert checkpoint_place(parse_place("s3://bucket/jobs"), attempt) == Place("s3a://bucket/jobs/job/vertex/checkpoint.0")
    with pytest.raises(WorkingDirectoryUnfit, match=f"cannot be in gs://bucket/jobs, .*, {KEY} must be a path .* or a prefix of S3"):
        checkpoint_place(parse_place("gs://bucket/jobs"), attempt)


STORED = (KEY, "blob.storage.directory", "jobmanager.archive.fs.dir")
"""Keys of places that may be a URL."""


def _places_of(cluster_id: str, **where: str) -> dict[str, Place]:
    """Return every place that a configuration makes for what a cluster keeps."""
    configuration = build_configuration({"cluster.id": cluster_id, "jobstore.type": "file", **where}, "f")
    assert not configuration.savepoint_directory, "savepoints have no place that nobody has named"
    working, attempt = configuration.working_place, AttemptId("job", "vertex", 0, 1)
    paths = {
        "blobs": configuration.blob_location,
        "archives": configuration.archive_location,
        "pid files": configuration.pid_path,
        "logs of daemons": configuration.log_path,
        "the cluster secret": secret_path(configuration.data_path, cluster_id),
    }
    return {
        "data sets": working,
        "an output": output_place(working, attempt, "out"),
        "a checkpoint": checkpoint_place(working, attempt),
        **{what: Place(str(path)) for what, path in paths.items()},
    }


@pytest.mark.parametrize(
    "where",
    [
        {"data.directory": "/shared"},
        dict.fromkeys(("data.directory", "env.pid.dir", "env.log.dir", *STORED), "/shared"),
        {"data.directory": "/shared", **dict.fromkeys(STORED, "s3a://bucket/prefix/")},
    ],
    ids=["a data directory", "each directory", "a URL"],
)
@pytest.mark.parametrize("other", ["orders-2", "orders.2", "job", "jobs"])
def test_clusters_that_share_a_directory_or_a_url_have_no_place_in_common(where: dict[str, str], other: str) -> None:
    ours, theirs = _places_of("orders", **where), _places_of(other, **where)
    for what, place in ours.items():
        for of_what, there in theirs.items():
            assert place != there, (what, of_what)
            assert place.name_below(there) is there.name_below(place) is None, (what, of_what)


def test_what_is_below_a_place_begins_with_its_whole_name() -> None:
    assert (Place("s3a://b/jobs") / "job" / "x").name_below(Place("s3a://b/jobs")) == "job/x"
    assert Place("s3a://b/jobs-2/x").name_below(Place("s3a://b/jobs")) is None


@pytest.fixture(params=["directory", "store"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A directory, and a store that lives in this process."""
    return Place(str(tmp_path / "root")) if request.param == "directory" else Place(f"memory://{tmp_path.name}/root")


def _write(place: Place, data: bytes = b"x") -> None:
    if not place.scheme:
        place.path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(place, data)


def test_files_are_found_read_and_removed_in_directories_and_stores(root: Place) -> None:
    job = root / "job"
    for name in ("b/part-1", "b/part-0", "b/_list", "b/.crc", "b/_temporary/part-2", "a/part-0"):
        _write(job / name, b"four")
    _write(root / "job-2" / "part-0")
    assert {name: facts.size for name, facts in find_files(job).items()} == {"a/part-0": 4, "b/part-0": 4, "b/part-1": 4}
    assert read_start(job / "b" / "_list", 3) == b"fou"
    with pytest.raises(FileNotFoundError):
        read_start(job / "none", 3)
    remove_folder(root, "job", [job / "b"])
    assert list(find_files(root)) == ["job-2/part-0", "job/b/part-0", "job/b/part-1"]
    for _ in range(2):
        remove_folder(root, "job", [])
        assert list(find_files(root)) == ["job-2/part-0"]


def test_all_files_of_a_place_are_named_hidden_ones_too_and_read_whole(root: Place) -> None:
    assert (names_in(root), names_below(root), read_if_there(root / "0")) == ([], [], None)
    for name in ("state/0/_metadata/v2/0", "state/0/.1.crc", "offsets/0", "metadata"):
        write_whole(root / name, b"four")
    assert sorted(names_in(root)) == ["metadata", "offsets", "state"]
    assert names_below(root) == ["metadata", "offsets/0", "state/0/.1.crc", "state/0/_metadata/v2/0"]
    assert names_below(root / "state") == ["0/.1.crc", "0/_metadata/v2/0"]
    assert (read_whole(root / "metadata"), read_if_there(root / "offsets" / "0")) == (b"four", b"four")
    with on_this_host(root / "metadata") as path:
        assert path.read_bytes() == b"four"
    assert path.exists() == (not root.scheme)
    with pytest.raises(FileNotFoundError):
        read_whole(root / "none")
    with pytest.raises(FileNotFoundError), on_this_host(root / "none") as path:
        path.read_bytes()


@pytest.fixture
def output(tmp_path: Path) -> OutputLocation:
    """An output in a store."""
    import pyarrow as pa  # noqa: PLC0415 - two of these tests need it
    import pyarrow.parquet as pq  # noqa: PLC0415 - likewise

    pq.write_table(pa.table({"n": [1, 2, 3]}), tmp_path / "rows.parquet")
    place = Place(f"memory://{tmp_path.name}/output")
    write_whole(place / "part-0.parquet", (tmp_path / "rows.parquet").read_bytes())
    return write_file_list("default", place, 3)


def test_an_output_in_a_store_is_published_and_its_losses_are_found(output: OutputLocation) -> None:
    place = Place(output.location)
    assert find_damage(output) is None
    with opened(place / "part-0.parquet") as file:
        assert file.read(4) == b"PAR1"
    _write(place / "part-1.parquet")
    assert (find_damage(output) or "").startswith(f"{place}/part-1.parquet was not written by the attempt")
    write_whole(place / "part-0.parquet", b"PAR1")
    assert "part-0.parquet has 4 bytes, and had " in (find_damage(output) or "")
    write_whole(place / FILE_LIST, b"{}")
    assert (find_damage(output) or "").endswith("is not the list of files that was written")


def test_what_a_store_does_not_say_is_no_loss(output: OutputLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a store that is away for long would have everything written again that is there."""

    def is_away(*_: object) -> None:
        raise ConnectionError("nobody answers")

    opened_inputs = OpenedInputs([OpenedInput("rows", {0: output})])
    monkeypatch.setattr(stored_files, "_PATIENCE_S", 0.6)
    monkeypatch.setattr(stored_files, "_file_system", is_away)
    with pytest.raises(StoreFailed, match=rf"/output could not be listed: ConnectionError: nobody answers \({KEY}\)$") as raised:
        opened_inputs.check_again()
    cause, lost = failure_of(raised.value, "v", opened_inputs)
    assert (cause.failure_type, lost) == ("StoreFailed", ())


def test_a_refusal_is_not_asked_again_and_names_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(place: Place) -> None:
        asked.append(place)
        raise PermissionError("Access Denied")

    monkeypatch.setattr(stored_files, "_file_system", refuse)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA1")
    with pytest.raises(StoreFailed, match=f"^s3a://bucket/x could not be read: PermissionError: Access Denied: .* key AKIA1 .*{KEY}"):
        read_start(Place("s3a://bucket/x"), 1)
    assert len(asked) == 1


def test_a_driver_that_does_not_load_is_told_with_what_it_says_itself(tmp_path: Path) -> None:
    (tmp_path / "botocore.py").write_text("raise ImportError('of another version')\n")
    program = (
        "from eventflink.jobs.stored_files import *; from eventflink.model.places import Place; remove_folder(Place('s3://b'), 'x', ())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "StoreFailed: s3://b" in done.stderr
    assert "cannot be loaded: ImportError: of another version: install it here" in done.stderr
    assert "credentials" not in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "same",
    [
        ["/a/b", "/a//b/", "/a/./b", "/a/x/../b", "file:/a/b", "file:///a/b", "file:///a//b/"],
        ["s3a://bucket/a", "s3://bucket/a/", "s3://bucket//a"],
        ["hdfs://name:9000/a:/b", "hdfs://name:9000//a:/b"],
        ["/a:/b", "file:///a:/b"],
    ],
    ids=lambda same: str(same[0]),
)
def test_what_names_the_same_has_one_spelling(same: list[str]) -> None:
    assert len({in_one_spelling(each) for each in same}) == 1


def test_what_names_something_else_has_another_spelling() -> None:
    others = ["/a/b", "/a/B", "s3a://a/b", "gs://a/b", "hdfs://a/b", "s3a://a/c"]
    assert len({in_one_spelling(each) for each in others}) == len(others)
