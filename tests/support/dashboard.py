"""The shipped Grafana dashboard, and the metrics that its queries name."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DASHBOARD = Path(__file__).parents[2] / "conf" / "grafana-dashboard.json"

_METRIC = re.compile(r"\b(?:eventflink|process|python)_[a-z_]+")


def read_dashboard() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return document


def expressions(node: Any) -> Iterator[str]:
    """Yield every query of the dashboard: of panels, and of its variables."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("expr", "query") and isinstance(value, str) and value != "prometheus":
                yield value
            else:
                yield from expressions(value)
    elif isinstance(node, list):
        for value in node:
            yield from expressions(value)


def dashboard_metrics() -> set[str]:
    """Return the names of all metrics that are asked for."""
    return {name for expression in expressions(read_dashboard()) for name in _METRIC.findall(expression)}
