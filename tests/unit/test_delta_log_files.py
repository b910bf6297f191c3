"""Which files of a table's log tell the mark of a writer, by the names that Delta's protocol gives them."""

import pytest

from eventflink.streams.delta_table import files_to_read

ROOT = "s3a://bucket/sales/_delta_log/"
UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def commit(version: int) -> str:
    return f"{ROOT}{version:020}.json"


def checkpoint(version: int, more: str = "", suffix: str = "parquet") -> str:
    return f"{ROOT}{version:020}.checkpoint{more}.{suffix}"


@pytest.mark.parametrize(
    "files",
    [
        [checkpoint(3)],
        [checkpoint(3, f".{UUID}")],
        [checkpoint(3, f".{UUID}", "json")],
        [checkpoint(3, ".0000000001.0000000002"), checkpoint(3, ".0000000002.0000000002")],
    ],
)
def test_the_newest_checkpoint_and_the_commits_after_it_are_read(files: list[str]) -> None:
    others = [f"{ROOT}{3:020}.crc", f"{ROOT}{2:020}.{3:020}.compacted.json", checkpoint(1), *map(commit, range(2, 6))]
    assert files_to_read([*others, *files]) == (files, [commit(4), commit(5)], [commit(3), commit(2)])


def test_a_checkpoint_that_is_not_whole_is_not_read() -> None:
    files = [checkpoint(1), checkpoint(4, ".0000000001.0000000002"), *map(commit, range(6))]
    assert files_to_read(files) == ([checkpoint(1)], [commit(version) for version in range(2, 6)], [commit(1), commit(0)])


def test_all_commits_of_a_log_without_a_checkpoint_are_read() -> None:
    assert files_to_read([commit(0), commit(1)]) == ([], [commit(0), commit(1)], [])
