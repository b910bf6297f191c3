"""A configuration that is wrong is refused with the key, the source and the problem."""

from pathlib import Path
from typing import Any

import pytest

from eventflink.leadership.configured_settings import master_settings
from eventflink.model.configuration import KEYS, Configuration, ConfigurationError, build_configuration, load_configuration
from eventflink.model.iceberg_catalogs import IcebergCatalog
from eventflink.model.job_graph import RestartStrategy
from eventflink.model.port_range import ports_of
from eventflink.model.spark_engines import SparkAddress, SparkEngine, addresses_of
from eventflink.model.statuses import FailoverStrategy, RestartStrategyType

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"bootstrap.server": "x"}, "f: unknown configuration key 'bootstrap.server'; did you mean 'bootstrap.servers'?"),
    ({"taskmanager": {"numberOfTaskSlot": 1}}, "did you mean 'taskmanager.numberOfTaskSlots'?"),
    ({"zzz": 1}, "f: unknown configuration key 'zzz'"),
    ({"cluster_id": "x"}, "f: unknown configuration key 'cluster_id'"),
    ({"broker.port": "many"}, "f: broker.port: must be a whole number"),
    ({"restart-strategy.type": "cluster-default"}, "f: restart-strategy.type: cluster-default is for graphs"),
    ({"restart-strategy.type": "always"}, "f: restart-strategy.type: must be "),
    ({"restart-strategy.fixed-delay.attempts": 2**31}, "f: restart-strategy.fixed-delay.attempts: must be at most"),
    ({"restart-strategy.exponential-delay.initial-backoff": 0}, "initial-backoff: must be at least"),
    ({"restart-strategy.exponential-delay.backoff-multiplier": 0.5}, "backoff-multiplier: must be at least"),
    ({"restart-strategy.exponential-delay.backoff-multiplier": "nan"}, "backoff-multiplier: must be a finite number"),
    ({"restart-strategy.exponential-delay.jitter-factor": "inf"}, "jitter-factor: must be "),
    (
        {"restart-strategy.exponential-delay": {"initial-backoff": 500, "max-backoff": 499}},
        "f: restart-strategy.exponential-delay.max-backoff (499) must not be less than restart-strategy.exponential-delay.initial-backoff",
    ),
    ({"restart-strategy.failure-rate.max-failures-per-interval": 0}, "max-failures-per-interval: must be at least"),
    ({"jobmanager.execution.failover-strategy": "regions"}, "f: jobmanager.execution.failover-strategy: must be "),
    ({"web.exception-history-size": -1}, "f: web.exception-history-size: must be at least"),
    ({"broker.port": 65_536}, "f: broker.port: must be at most 65535"),
    ({"high-availability.lease-timeout": 900_001}, "f: high-availability.lease-timeout: must be at most 900000"),
    ({"taskmanager.numberOfTaskSlots": 0}, "f: taskmanager.numberOfTaskSlots: must be at least 1"),
    ({"blob.server.port": "many"}, "f: blob.server.port: invalid ports: 'many'; give a port (50100), a range (50100-50200), or several"),
    ({"blob.server.port": "1-2-3"}, "f: blob.server.port: invalid ports: '1-2-3'"),
    ({"blob.server.port": ""}, "f: blob.server.port: invalid ports: ''"),
    ({"blob.server.port": 65_536}, "f: blob.server.port: '65536' is not a port from 0 to 65535"),
    ({"blob.server.port": "0-5"}, "f: blob.server.port: '0-5' is not a port from 1 to 65535"),
    ({"blob.server.port": "50200-50100"}, "f: blob.server.port: '50200-50100' is an empty range of ports"),
    ({"blob.service.cleanup.interval": 10}, "f: blob.service.cleanup.interval: must be at least 1000"),
    ({"security.ssl.internal.key": "key.pem"}, "f: security.ssl.internal.certificate and security.ssl.internal.key belong together"),
    ({"cluster.id": "a b"}, "f: cluster.id: only letters, digits, '.', '_' and '-', at most 128"),
    ({"jobmanager.id": "../x"}, "f: jobmanager.id: only letters"),
    ({"taskmanager.id": "x" * 129}, "f: taskmanager.id: only letters"),
    ({"spark.local.memory": "1 gigabyte"}, "f: spark.local.memory: must match"),
    ({"spark.tables": "iceberg"}, "f: spark.tables: must be '' or 'delta'"),
    (
        {"spark.tables": "delta", "spark.remote": "sc://there:1"},
        "f: spark.tables: 'delta' is for a local server, and spark.remote names one elsewhere: give that one the jars and settings of ",
    ),
    ({"spark.pool": "a/b"}, "f: spark.pool: must match"),
    ({"spark.pool": "job", "spark.remote": "sc://there:1"}, "f: spark.pool: 'job' is a local server, and spark.remote names one elsewhere"),
    ({"restart-strategy.type": "sometimes"}, "f: restart-strategy.type: must be"),
    (
        {"spark.engines": {"lake": {"remote": "http://there:1"}}},
        "f: spark.engines.lake.remote: invalid address of a Spark Connect server: ",
    ),
    (
        {"spark.engines": {"lake": {"remote": "sc://there:many"}}},
        "f: spark.engines.lake.remote: invalid address of a Spark Connect server: ",
    ),
    (
        {"spark.engines.lake.settings.spark.sql.ansi.enabled": True},
        "f: spark.engines.lake.remote: invalid address of a Spark Connect server: ''",
    ),
    (
        {"spark.engines.lake.remote": "sc://there:1/;token=hush"},
        "f: spark.engines.lake.remote: a secret stands in the address; name it by spark.engines.lake.token: ${file:/path}",
    ),
    (
        {"spark.engines.lake": {"remote": "sc://there:1", "token": "hush"}},
        "f: spark.engines.lake.token: a secret is named here, not written: ${file:/path/of/it}",
    ),
    ({"spark.engines.Lake.remote": "sc://there:1"}, "f: spark.engines.Lake.remote: invalid name of an engine: 'Lake'; give small letters"),
    ({"spark.engines.local.remote": "sc://there:1"}, "f: spark.engines.local.remote: 'local' is the Spark of the host"),
    ({"spark.engines.lake.remotes": "sc://there:1"}, "f: spark.engines.lake.remotes: unknown key of an engine; known: remote, token, "),
    (
        {"spark.engines.lake": {"remote": "sc://there:1", "settings": {"spark.hadoop.fs.s3a.secret.key": "hush"}}},
        "f: spark.engines.lake.settings.spark.hadoop.fs.s3a.secret.key: a secret is named here, not written",
    ),
    ({"spark.engines.lake.settings.shuffle": 1}, "f: spark.engines.lake.settings.shuffle: unknown key of an engine"),
    ({f"spark.engines.e{n}.remote": "sc://there:1" for n in range(33)}, "f: spark.engines: 33 engines; at most 32 may be named"),
    ({"iceberg.catalogs.Lake.uri": "http://c"}, "f: iceberg.catalogs.Lake.uri: invalid name of a catalogue: 'Lake'; give small letters"),
    ({"iceberg.catalogs.lake": "http://c"}, "f: iceberg.catalogs.lake: behind the name of the catalogue stands a property of pyiceberg"),
    ({"iceberg.catalogs.lake.warehouse": "s3://w"}, "f: iceberg.catalogs.lake: neither 'uri' nor 'type' says what catalogue it is"),
    (
        {"iceberg.catalogs.lake": {"uri": "http://c", "s3": {"secret-access-key": "hush"}}},
        "f: iceberg.catalogs.lake.s3.secret-access-key: a secret is named here, not written: ${file:/path/of/it}",
    ),
    ({"iceberg.catalogs.lake.credential": "id:hush"}, "f: iceberg.catalogs.lake.credential: a secret is named here, not written"),
    ({"iceberg.catalogs.lake.uri": "postgresql://me:hush@db/c"}, "f: iceberg.catalogs.lake.uri: a secret is named here, not written"),
    ({f"iceberg.catalogs.c{n}.type": "sql" for n in range(33)}, "f: iceberg.catalogs: 33 catalogues; at most 32 may be named"),
    ({"heartbeat.interval": None}, "f: heartbeat.interval: must be a whole number"),
    (
        {"heartbeat.interval": 500, "taskmanager.self-fence-timeout": 2_000},
        "(2000) + taskmanager.kill-timeout (1000) must be less than heartbeat.interval * heartbeat.missed-beats (2500)",
    ),
]


@pytest.mark.parametrize(("values", "says"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_named_with_its_key(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        build_configuration(values, "f")
    assert says in str(caught.value)


def test_the_engines_are_those_of_tasks_that_name_none_and_those_with_names() -> None:
    lake = {"remote": "sc://there:1/;use_ssl=true", "token": "${file:/t}", "settings": {"spark.sql": {"ansi.enabled": True}}}
    configuration = build_configuration({"spark": {"remote": "sc://here:1", "engines": {"lake": lake}}}, "f")
    assert configuration.engines == (
        SparkEngine("", "sc://here:1"),
        SparkEngine("lake", "sc://there:1/;use_ssl=true", "${file:/t}", {"spark.sql.ansi.enabled": "true"}),
    )
    assert addresses_of(configuration.engines) == (SparkAddress("", "sc://here:1"), SparkAddress("lake", "sc://there:1"))
    assert addresses_of(build_configuration({}, "f").engines) == ()


def test_a_catalogue_of_iceberg_has_the_properties_behind_its_name() -> None:
    lake = {"uri": "https://catalog", "token": "${file:/t}", "rest": {"sigv4-enabled": True}, "s3": {"endpoint": "http://s"}}
    properties = {"uri": "https://catalog", "token": "${file:/t}", "rest.sigv4-enabled": "true", "s3.endpoint": "http://s"}
    configuration = build_configuration({"iceberg": {"catalogs": {"lake": lake, "a": {"type": "sql"}}}}, "f")
    assert configuration.catalogs == (IcebergCatalog("a", {"type": "sql"}), IcebergCatalog("lake", properties))


PATH_KEYS = [field.alias or name for name, field in Configuration.model_fields.items() if field.annotation in (Path, Path | None)]


@pytest.mark.parametrize("key", PATH_KEYS)
@pytest.mark.parametrize("url", ["s3a://bucket/jobs", "hdfs://name:9000/jobs", "gs://bucket", "file:///jobs", Path("s3a://bucket/jobs")])
def test_a_path_that_is_a_url_is_refused_by_its_key(key: str, url: str | Path) -> None:
    """It would be a folder `s3a:` of the current directory, which only this host has."""
    with pytest.raises(ConfigurationError) as caught:
        build_configuration({key: url}, "f")
    assert str(caught.value).startswith(f"f: {key}: '{url}' is a URL, and this is a path: ")


@pytest.mark.parametrize("key", [*PATH_KEYS, "execution.working-directory", "jobmanager.archive.fs.dir"])
def test_a_path_below_the_directory_of_nobody_is_refused_by_its_key(key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        build_configuration({key: "~nobody-is-called-so/jobs"}, "f")
    assert str(caught.value).startswith(f"f: {key}: invalid path: '~nobody-is-called-so/jobs': user not found")


def test_each_directory_of_several_is_looked_at() -> None:
    with pytest.raises(ConfigurationError, match="invalid path: '/here,~nobody-is-called-so/jobs': user not found"):
        build_configuration({"historyserver.archive.fs.dir": "/here,~nobody-is-called-so/jobs"}, "f")


@pytest.mark.parametrize("path", ["/with:colon/jobs", "relative/s3a:/jobs", "~/jobs", "c:/jobs", "a b"])
def test_what_is_no_url_is_a_path(path: str) -> None:
    place = build_configuration({"execution.working-directory": path}, "f").working_place
    assert place.path == Path(path).expanduser().absolute() / "eventflink"


@pytest.mark.parametrize(
    "key",
    ["blob.storage.directory", "jobmanager.archive.fs.dir", "historyserver.archive.fs.dir", "execution.checkpointing.savepoint-dir"],
)
def test_where_a_url_may_be_it_stays_one(key: str) -> None:
    configuration = build_configuration({key: "s3://bucket/somewhere"}, "f")
    assert getattr(configuration, KEYS[key]) == "s3://bucket/somewhere"


def test_keys_may_be_flat_or_nested() -> None:
    flat = build_configuration({"heartbeat.interval": 2_000, "heartbeat.missed-beats": 4}, "f")
    assert flat == build_configuration({"heartbeat": {"interval": 2_000, "missed-beats": 4}}, "f")
    assert flat.loss_timeout_ms == 8_000


def test_every_key_has_a_meaning_and_a_default() -> None:
    assert load_configuration(None, {}) == build_configuration({}, "defaults")
    for field in Configuration.model_fields.values():
        assert field.description, field.alias
        assert field.alias in KEYS
        assert not field.is_required()


@pytest.mark.parametrize("written", ["fixed-delay", "FIXED_DELAY", "fixed-DELAY"])
def test_a_strategy_is_written_as_flink_writes_it(written: str) -> None:
    assert build_configuration({"restart-strategy.type": written}, "f").restart_strategy is RestartStrategyType.FIXED_DELAY


@pytest.mark.parametrize(
    ("keys", "strategy"),
    [
        ({}, RestartStrategy(RestartStrategyType.NONE)),
        (
            {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": 7, "restart-strategy.fixed-delay.delay": 8},
            RestartStrategy(RestartStrategyType.FIXED_DELAY, 7, 8),
        ),
        (
            {
                "restart-strategy": {
                    "type": "exponential-delay",
                    "exponential-delay": {
                        "initial-backoff": 1,
                        "max-backoff": 2,
                        "backoff-multiplier": 3,
                        "reset-backoff-threshold": 4,
                        "jitter-factor": 0.5,
                    },
                }
            },
            RestartStrategy(RestartStrategyType.EXPONENTIAL_DELAY, 0, 1, 2, 3.0, 4, 0.5),
        ),
        (
            {
                "restart-strategy": {
                    "type": "failure-rate",
                    "failure-rate": {"max-failures-per-interval": 1, "failure-rate-interval": 2, "delay": 3},
                }
            },
            RestartStrategy(RestartStrategyType.FAILURE_RATE, 1, 3, interval_ms=2),
        ),
    ],
)
def test_the_default_restart_strategy_has_what_its_keys_say(keys: dict[str, Any], strategy: RestartStrategy) -> None:
    assert build_configuration(keys, "f").default_restart_strategy == strategy


def test_streams_always_restart_unless_a_strategy_is_configured() -> None:
    unnamed = build_configuration({"restart-strategy.exponential-delay.initial-backoff": 7}, "f")
    assert unnamed.default_restart_strategy.strategy_type is RestartStrategyType.NONE
    strategy = unnamed.default_stream_restart_strategy
    assert (strategy.strategy_type, strategy.delay_ms) == (RestartStrategyType.EXPONENTIAL_DELAY, 7)
    named = build_configuration({"restart-strategy.type": "none"}, "f")
    assert named.default_stream_restart_strategy == named.default_restart_strategy


@pytest.mark.parametrize(("written", "meant"), [("full", FailoverStrategy.FULL), ("Region", FailoverStrategy.REGION)])
def test_a_master_decides_with_what_its_configuration_says(written: str, meant: FailoverStrategy) -> None:
    keys = {"jobmanager.execution.failover-strategy": written, "web.exception-history-size": 5, "restart-strategy.type": "failure-rate"}
    configuration = build_configuration(keys, "f")
    settings = master_settings(configuration)
    assert (settings.failover_strategy, settings.exception_history_size) == (meant, 5)
    assert settings.restart_strategy == configuration.default_restart_strategy


def test_overrides_lie_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "eventflink.yaml"
    path.write_text("cluster.id: from-file\nbroker:\n  port: 1234\n", encoding="utf-8")
    configuration = load_configuration(path, {"cluster.id": "from-command", "heartbeat.missed-beats": "7"})
    assert (configuration.cluster_id, configuration.broker_port, configuration.heartbeat_misses) == ("from-command", 1234, 7)


LAUGHS = b"a0: &a0 [x]\n" + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 12))
"""Twelve lines that stand for 9^11 texts."""


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"- a\n- b\n", "the document must be a mapping of keys to values, not list"),
        (b"just text", "the document must be a mapping of keys to values, not str"),
        (b"a: [", "cannot be read: "),
        (b"\xff\xfe\xff", "cannot be read: "),
        (b"a: 2020-99-99", "unknown configuration key 'a'"),
        (b"a: !!int x", "cannot be read: 'x' is not a whole number (line 1, column 4)"),
        (b"a: &a {b: *a}", "cannot be read: the alias 'a' stands for nothing, or for what it is in"),
        (b"[" * 900, "cannot be read: nested more than 100 levels deep"),  # Newer versions of libyaml themselves refuse a thousand.
        (LAUGHS, "cannot be read: its aliases stand for more than 1048576 characters"),
        (b"a: 1\nb: [", "(line 3, column 1)"),
        (b"heartbeat.interval: 1\nheartbeat: {interval: 2}", "'heartbeat.interval' stands there twice, in one name and as a key below"),
        (b"queues: {etl: {nominal-quota: 16}}\nqueues.etl.nominal-quota: 2", "'queues.etl.nominal-quota' stands there twice"),
        (b"nonsense: 1", "unknown configuration key 'nonsense'"),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "eventflink.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(path, {})
    assert str(caught.value).startswith(f"{path}: ")
    assert says in str(caught.value)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none.yaml: cannot be read: "):
        load_configuration(tmp_path / "none.yaml", {})


def test_an_override_that_is_wrong_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"-D clutser.id: unknown configuration key 'clutser.id'; did you mean 'cluster.id'"):
        load_configuration(None, {"clutser.id": "x"})
    with pytest.raises(ConfigurationError, match=r"with -D broker.port: broker.port: must be a whole number"):
        load_configuration(None, {"broker.port": "x"})


def test_an_empty_file_means_defaults(tmp_path: Path) -> None:
    path = tmp_path / "eventflink.yaml"
    path.write_text("# nothing\n", encoding="utf-8")
    assert load_configuration(path, {}) == load_configuration(None, {})


def test_ids_that_are_left_out_are_filled_in_once() -> None:
    configuration = load_configuration(None, {}).with_ids()
    assert configuration.master_id.startswith("master-")
    assert configuration.task_manager_id.startswith("tm-")
    assert configuration.with_ids() == configuration
    assert load_configuration(None, {}).with_ids().task_manager_id != configuration.task_manager_id


@pytest.mark.parametrize(
    ("text", "ports"),
    [(0, [0]), ("50100", [50100]), ("50100-50102", [50100, 50101, 50102]), ("50100, 50200-50201", [50100, 50200, 50201]), ("7-7", [7])],
)
def test_ports_of_the_blob_server_are_written_as_flink_writes_them(text: object, ports: list[int]) -> None:
    assert list(ports_of(build_configuration({"blob.server.port": text}, "f").blob_port)) == ports


@pytest.mark.parametrize(
    ("directory", "location"),
    [
        ("", "/data/blobs/cell"),
        ("/mnt/blobs", "/mnt/blobs/cell"),
        ("s3://bucket/blobs/", "s3://bucket/blobs/cell"),
        ("file:///mnt", "file:///mnt/cell"),
    ],
)
def test_blobs_of_clusters_that_share_a_storage_lie_apart(directory: str, location: str) -> None:
    values = {"blob.storage.directory": directory, "data.directory": "/data", "cluster.id": "cell"}
    assert build_configuration(values, "f").blob_location == location


@pytest.mark.parametrize("bootstrap", ["localhost:9092", "127.0.0.1:1,[::1]:2", "LOCALHOST:9092"])
def test_a_kafka_of_this_host_alone_leaves_no_other_host_to_let_in(bootstrap: str) -> None:
    assert load_configuration(None, {}).keys_that_shut_hosts_out(bootstrap) == []


def test_keys_that_let_this_host_alone_in_are_named_where_kafka_is_for_others() -> None:
    keys = {"jobmanager.rpc.address": "m1", "blob.server.bind-host": "0.0.0.0", "jobmanager.query.bind-host": "::"}
    assert load_configuration(None, {}).keys_that_shut_hosts_out("broker:9092,localhost:1") == list(keys)
    assert load_configuration(None, keys).keys_that_shut_hosts_out("broker:9092") == []
    assert load_configuration(None, keys | {"jobmanager.rpc.address": "localhost"}).keys_that_shut_hosts_out("broker:9092") == [
        "jobmanager.rpc.address"
    ]


@pytest.mark.parametrize("master", ["local", "local[*]", "local[4]", "local[2,3]"])
def test_the_spark_of_a_host_is_local(master: str) -> None:
    assert load_configuration(None, {"spark.local.master": master}).spark_master == master


@pytest.mark.parametrize("master", ["spark://manager:7077", "yarn", "k8s://https://api", "local-cluster[1,1,1024]", "local[0]", ""])
def test_a_cluster_of_spark_is_named_by_its_connect_server(master: str) -> None:
    with pytest.raises(ConfigurationError, match=r"spark\.local\.master: .* start a Spark Connect server there"):
        load_configuration(None, {"spark.local.master": master})
