"""Which Spark a task runs on, by its name, and how that of an earlier attempt is reached."""

from pathlib import Path

import pytest

from eventflink.model.secret_masks import masked
from eventflink.model.spark_engines import LOCAL, SparkEngine, address_of, shown
from eventflink.taskexecutor.spark_engines import addresses_at, find_engine, full_address, is_elsewhere, key_of, session_settings
from eventflink.taskexecutor.spark_server import SparkUnavailable

DEFAULT = SparkEngine("", "sc://default:1/;token=inline")


def lake_with(directory: Path, token: str) -> SparkEngine:
    """An engine whose token is in a file."""
    (directory / "token").write_text(token)
    (directory / "token").chmod(0o600)
    return SparkEngine("lake", "sc://there:15002/;use_ssl=true", f"${{file:{directory / 'token'}}}")


def test_a_task_that_names_none_has_the_default_and_local_is_the_spark_of_the_host_whatever_that_is() -> None:
    engines = (DEFAULT, SparkEngine("lake", "sc://there:1"))
    assert find_engine(engines, "") is DEFAULT
    assert find_engine(engines, "lake") is engines[1]
    assert find_engine(engines, LOCAL).remote == ""
    assert find_engine((SparkEngine(""),), "").remote == ""
    assert (key_of(DEFAULT), key_of(engines[1])) == ("spark.remote", "spark.engines.lake.remote")


def test_an_engine_that_is_not_there_is_refused_with_those_that_are_and_what_to_do() -> None:
    engines = (DEFAULT, SparkEngine("big", "sc://b:1"), SparkEngine("lake", "sc://there:1"))
    with pytest.raises(
        SparkUnavailable, match="Spark engine 'lakes' not found: this TaskExecutor has local, big, lake; name one of these, "
    ):
        find_engine(engines, "lakes")


def test_a_token_is_read_where_it_is_used_and_is_in_no_address_that_is_shown(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, "hush")
    assert full_address(lake) == "sc://there:15002/;use_ssl=true;token=hush"
    assert full_address(SparkEngine("lake", "sc://there:15002", lake.token)) == "sc://there:15002/;token=hush"
    assert shown(full_address(lake)) == "sc://there:15002"
    lake_with(tmp_path, "newer")
    assert full_address(lake).endswith("token=newer")
    assert full_address(DEFAULT) == DEFAULT.remote
    assert masked("it says newer") == "it says ***"
    lake_with(tmp_path, "")
    with pytest.raises(SparkUnavailable, match=r"spark\.engines\.lake\.token: what it refers to is empty"):
        full_address(lake)
    (tmp_path / "token").unlink()
    with pytest.raises(SparkUnavailable, match=f"spark.engines.lake.token: {tmp_path}/token cannot be read"):
        full_address(lake)


def test_a_secret_among_the_settings_of_sessions_is_read_with_them(tmp_path: Path) -> None:
    reference = lake_with(tmp_path, "hush").token
    settings = {"spark.sql.shuffle.partitions": "64", "spark.hadoop.fs.s3a.secret.key": reference}
    lake = SparkEngine("lake", "sc://there:1", settings=settings)
    assert session_settings(lake) == {"spark.sql.shuffle.partitions": "64", "spark.hadoop.fs.s3a.secret.key": "hush"}
    assert masked("64 hush") == "64 ***"
    (tmp_path / "token").unlink()
    with pytest.raises(SparkUnavailable, match=r"spark\.engines\.lake\.settings\.spark\.hadoop\.fs\.s3a\.secret\.key: .* cannot be read"):
        session_settings(lake)


@pytest.mark.rule("P15")
def test_the_spark_of_an_earlier_attempt_is_reached_by_its_address_whatever_its_engine_is_called_now(tmp_path: Path) -> None:
    former = lake_with(tmp_path, "hush")
    engines = (SparkEngine("lake", "sc://elsewhere:1"), SparkEngine("former", former.remote, former.token))
    assert addresses_at(engines, "sc://there:15002") == [full_address(former)]
    assert addresses_at(engines, "sc://gone:1") == ["sc://gone:1"]
    proxied = (SparkEngine("a", "sc://proxy:1/;x-cluster=a"), SparkEngine("b", "sc://proxy:1/;x-cluster=b"))
    assert addresses_at(proxied, "sc://proxy:1") == ["sc://proxy:1/;x-cluster=a", "sc://proxy:1/;x-cluster=b"]


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("sc://There", "sc://there:15002"),
        ("sc://there:15002/", "sc://there:15002"),
        ("sc://there/;use_ssl=true;token=hush", "sc://there:15002"),
        ("sc://[::1]:7/;token=hush", "sc://[::1]:7"),
        ("sc://there:many/;token=hush", "sc://there:many"),
        ("nonsense", "nonsense"),
    ],
)
def test_an_address_is_the_same_however_it_is_written_and_has_no_secret(remote: str, address: str) -> None:
    assert address_of(remote) == address


def test_a_spark_of_the_host_is_not_taken_for_one_elsewhere() -> None:
    engines = (SparkEngine(""), SparkEngine("lake", "sc://there:15002/;use_ssl=true"))
    assert is_elsewhere(engines, "sc://there:15002/;use_ssl=true;token=hush")
    assert not is_elsewhere(engines, "sc://localhost:4711/;token=hush")
