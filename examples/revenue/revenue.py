"""A batch job as a user writes it: it travels with the job, and imports nothing of eventflink."""

import time
from pathlib import Path
from typing import Any

PATIENCE_S = 600.0


def read_orders(context: Any) -> Any:
    """Wait until the orders of the day are complete, and return this subtask's share of them."""
    directory = Path(context.parameters["directory"])
    deadline = time.monotonic() + PATIENCE_S
    while not (directory / "_SUCCESS").exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{directory} was not completed within {PATIENCE_S:g} s")
        time.sleep(0.05)
    return context.share(context.spark.read.csv(str(directory), schema="customer STRING, amount BIGINT"))
