"""A job that runs every night, as a user writes it: it travels with the job, and imports nothing of eventflink."""

import json
import urllib.request
from typing import Any


def read_orders(context: Any) -> Any:
    """Return all orders; which of them count, the statement behind this says."""
    return context.spark.read.csv(f"{context.parameters['directory']}/orders", schema="day DATE, currency STRING, amount BIGINT")


def publish(context: Any) -> Any:
    """Put the revenue of the day into its partition of the table; to do it again leaves the same."""
    directory, day = context.parameters["directory"], context.parameters["day"]
    rates = context.spark.read.csv(f"{directory}/rates.csv", schema="currency STRING, rate DOUBLE")
    revenue = context.inputs["by_currency"].join(rates, "currency").selectExpr("currency", "orders", "amount * rate AS euros")
    revenue.write.mode("overwrite").parquet(f"{directory}/revenue/day={day}")
    return revenue


def tell(context: Any) -> None:
    """Post a line about a run that has failed; where nobody takes it, the attempt fails and is tried again."""
    body = json.dumps({"text": f"the revenue of a day was not published: eventflink status {context.parameters['run']}"}).encode()
    # Who puts the schedule chooses the address.
    request = urllib.request.Request(context.parameters["webhook"], body, {"Content-Type": "application/json"})  # noqa: S310
    urllib.request.urlopen(request, timeout=30).close()  # noqa: S310
