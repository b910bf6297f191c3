"""The shipped dashboard asks for metrics that exist, by labels that they have, and can be imported as it is."""

import re

from eventflink.metrics.definitions import MetricType
from eventflink.metrics.metric_catalogue import METRICS
from eventflink.model.configuration import build_configuration
from tests.support.dashboard import dashboard_metrics, expressions, read_dashboard

GROUPED = re.compile(r"(?:by|on) \(([\w, ]+)\)|\{([\w~=\", $.*|]+)\}")


def test_every_query_names_metrics_that_exist() -> None:
    known = {m.name for m in METRICS if m.metric_type is not MetricType.HISTOGRAM}
    known |= {f"{m.name}_{end}" for m in METRICS if m.metric_type is MetricType.HISTOGRAM for end in ("bucket", "sum", "count")}
    asked = dashboard_metrics()
    assert asked - known == set()
    assert len(asked) > 40


def test_every_query_groups_and_selects_by_labels_that_exist() -> None:
    known = {label for metric in METRICS for label in metric.labels} | {"le"}
    known |= {label for labels in build_configuration({}, "defaults").metric_labels.values() for label in labels} | {"job_name"}
    for expression in expressions(read_dashboard()):
        for grouped, selected in GROUPED.findall(expression):
            labels = [part.strip() for part in grouped.split(",")] if grouped else re.findall(r"(\w+)=", selected)
            assert set(labels) <= known, expression


def test_every_panel_has_an_id_of_its_own_a_query_and_a_place() -> None:
    panels = read_dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels]
    assert len(set(places)) == len(places)
    for panel in panels:
        assert panel["type"] == "row" or all(target["expr"] and target["legendFormat"] for target in panel["targets"])
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24


def test_it_asks_for_the_prometheus_to_use_and_names_none() -> None:
    dashboard = read_dashboard()
    assert [v["name"] for v in dashboard["templating"]["list"]] == ["datasource", "cluster"]
    for panel in dashboard["panels"]:
        assert panel["type"] == "row" or panel["datasource"]["uid"] == "${datasource}"
