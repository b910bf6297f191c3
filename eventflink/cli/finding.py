"""What a check of `doctor` found: its name, a verdict, a sentence that says what to do. It imports no check: each returns it."""

from enum import StrEnum
from typing import NamedTuple

from eventflink.model.spark_engines import SparkEngine


class Verdict(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Finding(NamedTuple):
    """One line of `doctor`."""

    name: str
    verdict: Verdict
    detail: str


def check_of(engine: SparkEngine) -> str:
    """Return what the check of a Spark is called."""
    return f"spark engine {engine.name}" if engine.name else "spark"
