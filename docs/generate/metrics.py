"""The page docs/generated/metrics.md, made of the catalogue of metrics, so that the two cannot differ."""

from collections.abc import Iterable
from typing import Final

from eventflink.metrics.definitions import LATENCY_BOUNDARIES, Metric
from eventflink.metrics.metric_catalogue import MAX_JOB_TASKS, MAX_STREAM_SUBTASKS, METRICS
from eventflink.metrics.registry import ASK_TIMEOUT_S, SHARED_S
from eventflink.metrics.server import MAX_SCRAPES, SCRAPE_TIMEOUT_S
from eventflink.model.configuration import Configuration
from eventflink.model.metric_settings import MetricScope
from eventflink.model.stream_progress import MAX_PARTITION_LAGS

_INTRODUCTION: Final = f"""\
# Metrics

<!-- Generated from eventflink/metrics/metric_catalogue.py: do not edit this page, run `python -m docs.generate`. -->

Masters and TaskExecutors serve their metrics to Prometheus, each process its own, over HTTP. Nothing listens unless
`metrics.reporter.prom.port` says where, as in Flink, where no reporter runs that was not configured: a port that opens by itself is one
that somebody has to close, and several processes of one host cannot share one.

## Serving and scraping

```yaml
# eventflink.yaml
metrics.reporter.prom.port: 9249-9260
metrics.reporter.prom.bind-host: 0.0.0.0     # where Prometheus is on another host; there is no authentication
```

A process takes the first free port of the range and says which (`MetricsServerStarted host=… port=…` in its log). A port that cannot be
had costs the metrics and nothing else: the process runs on, and says `MetricsNotServed`. `0` means any free port. The default interface
is the loopback: open it only where the cluster and its Prometheus are among themselves.

```yaml
# prometheus.yml
scrape_configs:
  - job_name: eventflink
    static_configs:
      - targets: ["master-1:9249", "master-2:9249", "worker-1:9249", "worker-1:9250"]
```

Text and OpenMetrics are both spoken. [conf/grafana-dashboard.json](../../conf/grafana-dashboard.json) is a dashboard for Grafana, ready to
be imported; it asks for the Prometheus that it is to use.

## What a scrape costs, and what it cannot do

- The server has a thread of its own. What a loop owns is read in a turn of that loop, between two decisions or heartbeats, as plain
  numbers; labels and text are made in the server's threads.
- What comes from the replicated state is read as every read is: of accepted decisions only. A leader that waits for its decisions to be
  read back tells everything but the state.
- A scrape waits {ASK_TIMEOUT_S:g} s at most for those it asks, and takes {SCRAPE_TIMEOUT_S:g} s at most; {MAX_SCRAPES} can be under way.
  Scrapes within {SHARED_S:g} s of each other get the same answer.
- A collector that fails or comes too late costs its own metrics, and is counted in `eventflink_metrics_collector_failures_total`.
  While a master builds its state from the log, `state` is counted there.
- No label is unbounded: live jobs have metrics of their own up to `metrics.max-jobs` (and up to {MAX_JOB_TASKS:,} tasks together), the
  oldest first, and `eventflink_jobmanager_jobs_without_metrics` says how many are left out. Of the streams of these jobs up to
  {MAX_STREAM_SUBTASKS:,} subtasks have metrics, and `eventflink_jobmanager_stream_subtasks_without_metrics` says how many are left out.
  A subtask tells of {MAX_PARTITION_LAGS} partitions at most, those that are furthest behind.
  Running tasks have theirs at their TaskExecutor, whose slots bound them.
- What a subtask of a stream is said to do is what it answered in the last completed checkpoint, and as old as that.
  While its query has ended no batch since it began, only the last committed batch is told.

## Scopes

The labels of a metric are those of its scope, and its own. A scope's format says which of its variables are labels, as Flink writes it:
variables in angle brackets between dots. Names of metrics are fixed, so that dashboards fit every cluster; of other words a format can only
have the scope's own, as in `<host>.jobmanager`. What every process has is labelled as the process itself.

| key | default | variables |
|---|---|---|
"""

_AFTER: Final = f"""
## Stacks and profiles

On the same port, each only where a key allows it, because who reads stacks reads how the code of jobs is called, and who profiles uses a
processor:

| path | needs | answers |
|---|---|---|
| `GET /threads` | `metrics.thread-dump.enabled` | The stacks of all Python threads, as text. |
| `GET /profile?seconds=N` | `metrics.profiler.enabled` | What the threads did in N seconds, as collapsed stacks, a line for each. |

N is 10 unless it is said, and at most `metrics.profiler.max-duration`. A stack weighs the processor time that its thread used, in
microseconds; with `&clock=wall` it weighs how often it was seen, waiting included. The process looks at itself a hundred times a
second: no privilege is needed, and code outside the interpreter shows as the Python line that called it. One profile is taken at a
time. Both answer while the loop that decides hangs.

    curl -s 'localhost:9249/profile?seconds=30' | flamegraph.pl > master.svg

## All metrics

Histograms have `_bucket`, `_sum` and `_count` behind their names. Their buckets end at
{", ".join(f"{boundary:g}" for boundary in LATENCY_BOUNDARIES)} seconds. Counters restart with their process.
"""

_SECTIONS: Final = (
    (MetricScope.JOBMANAGER, "Masters"),
    (MetricScope.JOB, "Live jobs, at masters"),
    (MetricScope.TASKMANAGER, "TaskExecutors"),
    (MetricScope.TASK, "Running tasks, at their TaskExecutor"),
    (MetricScope.PROCESS, "Every process"),
)
_KEYS: Final = {
    MetricScope.JOBMANAGER: "metrics_scope_jm",
    MetricScope.JOB: "metrics_scope_job",
    MetricScope.TASKMANAGER: "metrics_scope_tm",
    MetricScope.TASK: "metrics_scope_task",
}


def render() -> str:
    """Return the page."""
    lines = [_INTRODUCTION.rstrip("\n")]
    for scope, name in _KEYS.items():
        field = Configuration.model_fields[name]
        lines.append(f"| `{field.alias}` | `{field.default}` | {', '.join(f'`<{v}>`' for v in scope.variables)} |")
    lines.append(_AFTER.rstrip("\n"))
    for scope, title in _SECTIONS:
        lines += ["", f"### {title}", "", "| metric | type | labels | meaning |", "|---|---|---|---|"]
        lines += _rows(metric for metric in METRICS if metric.scope is scope)
    return "\n".join(lines) + "\n"


def _rows(metrics: Iterable[Metric]) -> list[str]:
    return [
        f"| `{metric.name}` | {metric.metric_type.lower()} | {', '.join(f'`{label}`' for label in metric.labels)} | {metric.meaning} |"
        for metric in metrics
    ]
