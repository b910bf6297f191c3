"""A stream as a user writes it: it travels with the job, and imports nothing of eventflink."""

from typing import Any


def read_customers(context: Any) -> Any:
    """Return the country of each customer: a batch task, whose rows the stream has as a table."""
    return context.spark.read.csv(context.parameters["path"], schema="customer STRING, country STRING")


def enrich(context: Any) -> Any:
    """Return each order with its country; what is no order comes out with its text in `_bad_record`."""
    return context.inputs["orders"].join(context.inputs["customers"], "customer", "left")
