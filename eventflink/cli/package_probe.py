"""What Spark's executors run for `doctor`: which version of this package they have. It is loaded there by its name, or is not found."""

import importlib.metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


def package_version() -> str:
    """Return the version of this package where it is asked."""
    return importlib.metadata.version("eventflink")


def versions_there(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Yield for each batch of rows the version where they are."""
    import pyarrow as pa  # noqa: PLC0415 - it is the executor's

    for _ in batches:
        yield pa.record_batch({"version": [package_version()]})
