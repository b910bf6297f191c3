"""Tasks as a user writes them; tests pack this file into an archive and never import it."""

import os
import time
from pathlib import Path
from typing import Any


def noop(_context: Any) -> None:
    """Do nothing."""


def note(context: Any) -> None:
    """Add a line to the file `path` for each time that a task runs."""
    with Path(context.parameters["path"]).open("a") as journal:
        journal.write(f"{context.job_id} {context.attempt}\n")


def wait_for_file(context: Any) -> None:
    """Write this process's id to `{path}.{subtask}.{attempt}` and wait until `{path}.go` exists."""
    path = context.parameters["path"]
    Path(f"{path}.{context.subtask_index}.{context.attempt}").write_text(str(os.getpid()))
    print(f"subtask {context.subtask_index} waits", flush=True)
    while not Path(f"{path}.go").exists():
        time.sleep(0.02)


def wait_for_file_and_go_on(context: Any) -> None:
    """Wait as `wait_for_file` does, and say when that is over."""
    wait_for_file(context)
    print(f"subtask {context.subtask_index} goes on", flush=True)


def wait_in_first_attempt(context: Any) -> None:
    """Wait for ever in the first attempt, do nothing in later ones."""
    if context.attempt == 1:
        wait_for_file(context)


def fail(context: Any) -> None:
    """Raise."""
    raise LookupError(context.parameters.get("message", "as the test wanted"))


def fail_with_a_secret(context: Any) -> None:
    """Log a secret, wait as `wait_for_file` does, and raise with the secret."""
    context.logger.info("the password is %s", context.parameters["login"]["password"])
    wait_for_file(context)
    raise LookupError(f"nobody has the password {context.parameters['login']['password']}")


def return_a_list(_context: Any) -> list[int]:
    """Return what no task may return."""
    return [1, 2, 3]


def versions_of_numpy(context: Any) -> Any:
    """Publish the version of numpy in this process, and in a Python function that Spark runs."""
    import numpy as np  # noqa: PLC0415 - not where this file is packed
    from pyspark.sql.functions import lit, udf  # noqa: PLC0415 - likewise

    spark = context.spark

    @udf("string", useArrow=False)  # type: ignore[untyped-decorator]  # pyspark says nothing of it
    def in_spark(_: object) -> str:
        import numpy as np  # noqa: PLC0415 - that of the process that runs it

        return str(np.__version__)

    return spark.range(1).select(lit(np.__version__).alias("task"), in_spark("id").alias("spark"))


def numbers(context: Any) -> Any:
    """Publish this subtask's share of 0 to count - 1."""
    return context.share(context.spark.range(context.parameters["count"]))


def numbers_of_engine(context: Any) -> Any:
    """Publish a hundred numbers for each that an input has, or a hundred, with what says which Spark computes them."""
    from pyspark.sql.functions import lit  # noqa: PLC0415 - not where this file is packed

    conf = context.spark.conf
    rows = context.spark.range(100) if not context.inputs else next(iter(context.inputs.values())).select("id")
    return rows.withColumn("engine", lit(conf.get("spark.eventflink.test.engine", ""))).withColumn("app", lit(conf.get("spark.app.id")))


def endless_query(context: Any) -> None:
    """Keep Spark busy for far longer than any test.

    Spark asks whether a task was interrupted once in a thousand rows of the first range: a million rows to compute, and not a billion.
    """
    Path(f"{context.parameters['path']}.{context.subtask_index}.{context.attempt}").write_text(str(os.getpid()))
    context.spark.sql("SELECT sum(sin(a.id) * cos(b.id)) FROM range(1000000000) a CROSS JOIN range(1000) b").collect()


def patient_query(context: Any) -> None:
    """Have a query run in Spark for longer than any test, which takes no processor."""
    Path(f"{context.parameters['path']}.{context.subtask_index}.{context.attempt}").write_text(str(os.getpid()))
    context.spark.sql("SELECT java_method('java.lang.Thread', 'sleep', 3600000L) FROM range(0, 1, 1, 1)").collect()


def copy_topic(context: Any) -> Any:
    """Copy what a Kafka topic holds to another one, as a stream, and publish what both hold then."""
    kafka = {"kafka.bootstrap.servers": context.parameters["bootstrap"], "startingOffsets": "earliest"}
    source, target, checkpoints = (context.parameters[name] for name in ("source", "target", "checkpoints"))
    stream = context.spark.readStream.format("kafka").options(**kafka, subscribe=source).load().select("key", "value")
    writer = stream.writeStream.format("kafka").options(**kafka, topic=target, checkpointLocation=checkpoints)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(60), "the stream did not end"
    both = context.spark.read.format("kafka").options(**kafka, subscribe=f"{source},{target}").load()
    return both.selectExpr("topic", "CAST(value AS STRING) AS value")


def print_words(context: Any) -> None:
    """Write to all three files of a task."""
    print("said on stdout")
    os.write(2, b"said on stderr\n")
    context.logger.info("said in the log")


def numbers_in_third_attempt(context: Any) -> Any:
    """Fail twice, then publish 0 to count - 1."""
    if context.attempt <= 2:
        try:
            context.parameters["nothing"]
        except KeyError as error:
            raise RuntimeError(f"attempt {context.attempt} fails") from error
    return numbers(context)


def total_once_let(context: Any) -> Any:
    """Say `{path}.{attempt}`, wait in the first attempt until `{path}.go` exists, then publish how many rows there are, and their sum."""
    path = context.parameters["path"]
    Path(f"{path}.{context.attempt}").touch()
    while context.attempt == 1 and not Path(f"{path}.go").exists():
        time.sleep(0.02)
    if context.attempt == 1 and context.parameters.get("fails"):
        raise LookupError("as the test wanted")
    return context.inputs["numbers"].selectExpr("count(*) AS n", "sum(id) AS total")


def meet(context: Any) -> None:
    """Write this process's id to `{path}.{vertex}.{attempt}`, wait for a living process of the vertex `other`, then for `{path}.go`."""
    path, other = context.parameters["path"], context.parameters["other"]
    Path(f"{path}.{context.vertex_id}.{context.attempt}").write_text(str(os.getpid()))
    theirs = Path(f"{path}.{other}.{context.attempt}")
    while not theirs.exists() or not theirs.read_text():
        time.sleep(0.02)
    os.kill(int(theirs.read_text()), 0)
    Path(f"{path}.{context.vertex_id}.{context.attempt}.met").touch()
    while not Path(f"{path}.go").exists():
        time.sleep(0.02)


def numbers_when_let(context: Any) -> Any:
    """Write of how many subtasks this is one to `{path}.{subtask}.{attempt}`, wait until `{path}.go` exists, then do as `numbers`."""
    path = context.parameters["path"]
    Path(f"{path}.{context.subtask_index}.{context.attempt}").write_text(str(context.parallelism))
    while not Path(f"{path}.go").exists():
        time.sleep(0.02)
    return numbers(context)
