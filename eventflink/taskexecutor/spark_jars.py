"""What Spark has here besides itself: its connector to Kafka, which pyspark does not ship.

Its jars are fetched once, when a Spark server first starts on a machine. Where they cannot be had, Spark starts without it, and its
configuration says why, so that a stream that needs it can say it.
"""

import importlib.metadata
import logging
from typing import Final

from eventflink.local.jars import SCALA_VERSION, JarSet, JarsUnavailable, default_cache_directory, ensure_jars
from eventflink.local.java import JavaMissing, find_java

logger = logging.getLogger(__name__)

PROBLEM_SETTING: Final = "spark.eventflink.kafkaConnectorMissing"
"""Of a Spark server that has no connector: why."""

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


def has_kafka_connector() -> bool:
    """Tell whether this machine has it already."""
    return kafka_connector().path(default_cache_directory()).is_dir()


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
