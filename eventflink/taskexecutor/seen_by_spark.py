"""Whether a Spark on other hosts sees the files of an input that this process sees.

Its driver lists the directories of an input, and reads what it finds there: of a directory that is another one on its host, it would read
other rows and say nothing. Executors list nothing: they fail where a file of the driver's list is not there. The rule it keeps: what
Spark is to read is compared with what was written before a task computes.
"""

import socket
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from eventflink.jobs.published import MUST_BE_SHARED, place_of, published_files
from eventflink.jobs.shipping import InputUnusable, read_parquet
from eventflink.model.places import Place
from eventflink.taskexecutor.failure_causes import text_of
from eventflink.taskexecutor.lost_inputs import OpenedInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOT_THERE: Final = "PATH_NOT_FOUND"


class InputInvisible(InputUnusable):
    """Spark does not find the files of an input where this host does."""


def check_seen_by_spark(spark: "SparkSession", opened: OpenedInput) -> None:
    """Have Spark's driver list the files of an input.

    Raises:
        InputInvisible: it finds others than were written.

    """
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    written = {str(path) for output in opened.outputs.values() for path in published_files(output)}
    directories = sorted({str(place_of(output)) for output in opened.outputs.values()})
    try:
        listed = read_parquet(spark, directories, columns="listed INT").inputFiles()  # With columns, none are read from a file.
    except AnalysisException as error:
        if _NOT_THERE not in text_of(error):
            raise
        listed = []
    seen = {str(_place_of_uri(name)) for name in listed}
    if seen == written:
        return
    one = min(written ^ seen)
    who = f"host {socket.gethostname()} sees {one}, and Spark does not" if one in written else f"Spark sees {one}, which was not written"
    raise InputInvisible(
        f"input '{opened.input_name}' is not where Spark reads: its driver finds {len(seen & written)} of the {len(written)} files that "
        f"were written, and {len(seen - written)} others ({who}): {MUST_BE_SHARED}"
    )


def _place_of_uri(uri: str) -> Place:
    """Return the place that Spark calls so: a file of a host has one slash behind its scheme, or three."""
    scheme, _, path = unquote(uri).partition(":")
    return Place("/" + path.lstrip("/") if scheme == "file" else f"{scheme}:{path}")
