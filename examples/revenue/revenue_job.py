"""The job of `revenue.yaml` in Python: `eventflink submit revenue_job.py --param directory=/data/orders` takes `revenue.py` along."""

from typing import Any

import revenue  # type: ignore[import-not-found]  # it lies beside this file

import eventflink


@eventflink.task(parallelism=2)
def orders(context: Any, directory: str) -> Any:
    """Return the orders in a directory."""
    context.logger.info("reading %s", directory)
    return revenue.read_orders(context)


@eventflink.job(name="revenue by customer", restart_strategy={"type": "fixed-delay", "attempts": 3, "delay_ms": 500})
def revenue_by_customer(directory: str = "/data/orders/today") -> None:
    """Say how the tasks go together."""
    eventflink.sql(
        "SELECT customer, count(*) AS orders, sum(amount) AS revenue FROM orders GROUP BY customer",
        id="revenue",
        orders=orders(directory),
    )
