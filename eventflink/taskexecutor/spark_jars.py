"""What Spark has here besides itself: its connector to Kafka, Hadoop's to S3 where data sets are there, Delta's tables where wanted.

Their jars are fetched once, when a Spark server that has them first starts on a machine: pyspark ships none of them. Where the connector to
Kafka cannot be had, Spark starts without it, and its configuration says why, so that a stream that needs it can say it. Without S3 no task
could write there, and tables are what the configuration asks for: without these Spark does not start. The rule: no credentials are in a
command line; S3's are found by AWS's own chain, in variables and files.
"""

import importlib.metadata
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from eventflink.local.jars import SCALA_VERSION, JarSet, JarsUnavailable, default_cache_directory, ensure_jars
from eventflink.local.java import JavaMissing, find_java
from eventflink.model.places import S3
from eventflink.streams.delta_table import DELTA_EXTENSION, LOG_STORE_SETTING
from eventflink.taskexecutor.spark_file_system import DELTA_LOG_CLASS, delta_log_jar

logger = logging.getLogger(__name__)

PROBLEM_SETTING: Final = "spark.eventflink.kafkaConnectorMissing"
"""Of a Spark server that has no connector: why."""

_HADOOP_VERSION: Final = "3.5.0"
"""Of the Hadoop that pyspark ships."""
_AWS_VERSION: Final = "2.35.4"
"""Of the AWS client that this Hadoop was built with."""
_AWS: Final = "software.amazon.awssdk"

S3_CONNECTOR: Final = JarSet(
    "Hadoop's connector to S3",
    _HADOOP_VERSION,
    "spark-s3-connector",
    (
        ("org.apache.hadoop", "hadoop-aws", _HADOOP_VERSION),
        ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
        # Hadoop names the bundle of all of Amazon's services, which is far larger: this is what it uses of it.
        *[(_AWS, name, _AWS_VERSION) for name in ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")],
    ),
    jar_count=36,
    megabytes=13,
    provided=("io.netty", "org.slf4j", "commons-codec", "commons-logging", "org.apache.httpcomponents"),
    alone=("hadoop-aws", "analyticsaccelerator-s3"),
)
_S3_PROVIDER: Final = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
"""AWS's own chain, which is also that of the client in Python: variables, files in ~/.aws, roles."""
CLASS_PATH: Final = "spark.driver.extraClassPath"
"""What is only there, and not among `spark.jars`, is not copied for executors by each Spark."""
_ANY_REGION: Final = "us-east-1"
"""What stores that are not Amazon's are called in."""

DELTA: Final = "delta"
"""What `spark.tables` calls the tables of Delta Lake."""

DELTA_SETTINGS: Final = {
    "spark.sql.extensions": DELTA_EXTENSION,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Delta reads its log by a shuffle into 50 partitions otherwise, whose cost is all of that of a small batch.
    "spark.databricks.delta.snapshotPartitions": "2",
    # VACUUM lists the files of a table by so many tasks, 10,000 otherwise, of whatever size the table is.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
    # Else the arguments of statements are put into their text before Delta's parser sees it, and that drops them (`sql_arguments.py`).
    "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
}
"""Of a Spark server that has Delta's tables: its sessions cannot be given them later."""

_DELTA_VERSION: Final = "4.4.0"
DELTA_TABLES: Final = JarSet(
    "Delta Lake",
    _DELTA_VERSION,
    "spark-delta-tables",
    (("io.delta", f"delta-spark_4.2_{SCALA_VERSION}", _DELTA_VERSION),),
    jar_count=9,
    megabytes=14,
    provided=(
        "org.apache.spark",
        "org.apache.hadoop",
        "org.apache.parquet",
        "org.apache.logging.log4j",
        "org.slf4j",
        "org.antlr",
        "org.scala-lang",
        "org.scala-lang.modules",
        "com.fasterxml.jackson.core",
        "com.fasterxml.jackson.datatype",
        "com.fasterxml.jackson.module",
        "com.google.code.findbugs",
    ),
)

_FETCH_TIMEOUT_S: Final = 100.0
"""Who needs no connector waits for it as well, where packets to the network are dropped."""

_PROBLEM_LIMIT: Final = 1_000


def kafka_connector() -> JarSet:
    """Return the connector of the installed Spark."""
    version = importlib.metadata.version("pyspark")
    return JarSet(
        "Spark's Kafka connector",
        version,
        "spark-kafka-connector",
        (("org.apache.spark", f"spark-sql-kafka-0-10_{SCALA_VERSION}", version),),
        jar_count=5,
        megabytes=10,
        provided=(
            "org.apache.hadoop",
            "org.slf4j",
            "org.xerial.snappy",
            "at.yawk.lz4",
            "com.google.code.findbugs",
            "org.scala-lang",
            "org.scala-lang.modules",
        ),
    )


def has_connectors(scheme: str, tables: str) -> bool:
    """Tell whether this machine has all jars already of a Spark with these tables, whose data sets are in a store of that scheme."""
    wanted = [kafka_connector(), *([S3_CONNECTOR] if scheme == S3 else []), *([DELTA_TABLES] if tables == DELTA else [])]
    return all(jar_set.path(default_cache_directory()).is_dir() for jar_set in wanted)


def connector_settings() -> dict[str, str]:
    """Return the settings with which Spark has the connector, fetching it first where it is missing, or says why it has not."""
    try:
        directory = ensure_jars(
            kafka_connector(), find_java(), progress=lambda line: logger.info("KafkaConnector %s", line), timeout_s=_FETCH_TIMEOUT_S
        )
    except (JarsUnavailable, JavaMissing) as error:
        logger.warning("KafkaConnectorMissing %s", error)
        return {PROBLEM_SETTING: " ".join(str(error).split())[:_PROBLEM_LIMIT]}
    return {"spark.jars": ",".join(str(jar) for jar in sorted(directory.glob("*.jar")))}


def store_settings(scheme: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with which Spark has a store of that scheme, fetching what it needs where that is missing.

    `environment` says where S3 is, as it says it to AWS's own clients. Other stores are the operator's to set up.

    Raises:
        JarsUnavailable, JavaMissing: the jars are not in the cache and cannot be fetched.

    """
    if scheme != S3:
        return {}
    directory = ensure_jars(S3_CONNECTOR, find_java(), progress=lambda line: logger.info("S3Connector %s", line))
    settings = {
        CLASS_PATH: _class_path(directory),
        "spark.hadoop.fs.s3a.aws.credentials.provider": _S3_PROVIDER,
    }
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or (_ANY_REGION if endpoint else "")
    if endpoint:
        settings |= {"spark.hadoop.fs.s3a.endpoint": endpoint, "spark.hadoop.fs.s3a.path.style.access": "true"}
    return settings | ({"spark.hadoop.fs.s3a.endpoint.region": region} if region else {})


def table_settings(tables: str, spark_jars: Path) -> dict[str, str]:
    """Return the settings with which Spark has tables of that kind, fetching what it needs where that is missing.

    `spark_jars` is the directory of Spark's own jars.

    Raises:
        JarsUnavailable, JavaMissing: the jars are not in the cache and cannot be fetched.

    """
    if tables != DELTA:
        return {}
    directory = ensure_jars(DELTA_TABLES, find_java(), progress=lambda line: logger.info("DeltaTables %s", line))
    log_jar = delta_log_jar(spark_jars, directory)
    class_path = os.pathsep.join([_class_path(directory), *([str(log_jar)] if log_jar is not None else [])])
    return {CLASS_PATH: class_path, **DELTA_SETTINGS, LOG_STORE_SETTING: DELTA_LOG_CLASS}


def _class_path(directory: Path) -> str:
    return ":".join(str(jar) for jar in sorted(directory.glob("*.jar")))
