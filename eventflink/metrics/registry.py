"""The registry of one process: it asks collectors for their numbers when it is scraped, each in the loop that owns the numbers.

Collectors are plain functions that add samples; those that read a loop's state run in that loop, are quick, and touch nothing of
Prometheus. Everything else (families, text) is made in the thread that serves the scrape. The rules: a collector that fails or comes too
late costs its own metrics and nothing else, each owner is asked for one scrape at a time, and scrapes in quick succession share
one answer. No registry is global.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, Generic, TypeVar

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family

from eventflink.metrics.definitions import Histogram, Metric, MetricType
from eventflink.metrics.metric_catalogue import COLLECT_SECONDS, COLLECTOR_FAILURES
from eventflink.model.metric_settings import MetricScope

ASK_TIMEOUT_S: Final = 1.0
"""How long one scrape waits for all whom it asks, together."""

SHARED_S: Final = 0.2
"""Scrapes within this time get the same answer: many who ask cost a leader no more than one."""

MAX_LABEL_LENGTH: Final = 200

_COMPLAINT_INTERVAL_S: Final = 60.0
_logger = logging.getLogger(__name__)

C = TypeVar("C")
R = TypeVar("R")


@dataclass(slots=True)
class Sample:
    """One number, or one histogram."""

    metric: Metric
    label_values: tuple[str, ...]
    scope_values: Mapping[str, str]
    value: float
    counts: tuple[int, ...] = ()
    boundaries: tuple[float, ...] = ()


class Samples:
    """What the collectors of one source say in one scrape."""

    def __init__(self) -> None:
        self.found: list[Sample] = []
        self.later: list[Callable[[Samples], None]] = []
        """What needs no loop, such as asking the system: it is done afterwards, in the thread that serves the scrape."""

    def add(self, metric: Metric, value: float, *label_values: str, scope: Mapping[str, str] | None = None) -> None:
        """Add a number; `scope` gives the variables of a job or a task."""
        if len(label_values) != len(metric.labels):
            raise ValueError(f"{metric.name} has the labels {metric.labels}, not {label_values}")
        self.found.append(Sample(metric, label_values, scope or {}, value))

    def add_counts(self, metric: Metric, counts: Mapping[str, int]) -> None:
        """Add a metric of one label from counts by its values."""
        for value, count in counts.items():
            self.add(metric, count, value)

    def add_one_of(self, metric: Metric, present: str | None, all_values: Iterable[str]) -> None:
        """Add a state: 1 for the present one, 0 for the others."""
        for value in all_values:
            self.add(metric, float(value == present), value)

    def add_histogram(self, metric: Metric, histogram: Histogram) -> None:
        """Add a histogram as it stands now."""
        self.found.append(Sample(metric, (), {}, histogram.total, tuple(histogram.counts), tuple(histogram.boundaries)))


Collect = Callable[[C, Samples], None]
"""A collector: it reads the context that its source gives it and adds samples."""


def ask_directly(work: Callable[[None], R]) -> "Future[R]":
    """Do it here and now: for numbers that nobody's loop owns."""
    future: Future[R] = Future()
    try:
        future.set_result(work(None))
    except Exception as error:  # noqa: BLE001 - told to who waits for the future
        future.set_exception(error)
    return future


@dataclass(slots=True)
class _Collected:
    samples: list[Sample]
    failures: list[tuple[str, Exception]]
    later: list[tuple[str, Callable[[Samples], None]]]
    seconds: float


@dataclass(slots=True)
class _Source(Generic[C]):
    """Collectors that are asked together, in one turn."""

    name: str
    ask: Callable[[Callable[[C], _Collected]], "Future[_Collected]"]
    collectors: Mapping[str, Collect[C]]
    under_way: "Future[_Collected] | None" = None

    def begin(self) -> "Future[_Collected]":
        """Ask, unless the last question is not answered yet."""
        if self.under_way is None or self.under_way.done():
            self.under_way = self.ask(self._collect)
        return self.under_way

    def _collect(self, context: C) -> _Collected:
        began = time.perf_counter()
        samples: list[Sample] = []
        failures: list[tuple[str, Exception]] = []
        later: list[tuple[str, Callable[[Samples], None]]] = []
        for name, collect in self.collectors.items():
            own = Samples()
            try:
                collect(context, own)
            except Exception as error:  # noqa: BLE001 - the caller is a loop that has better things to do
                failures.append((name, error))
            else:
                samples += own.found
                later += [(name, work) for work in own.later]
        return _Collected(samples, failures, later, time.perf_counter() - began)


class _Foreign:
    """A collector of prometheus_client, with the labels of this process."""

    def __init__(self, collect: Callable[[], Iterable[Family]], labels: Mapping[str, str]) -> None:
        self._collect = collect
        self._labels = labels

    def families(self) -> Iterator[Family]:
        for family in self._collect():
            family.samples = [sample._replace(labels={**self._labels, **sample.labels}) for sample in family.samples]
            yield family


class MetricRegistry:
    """All metrics of one process."""

    def __init__(self, own_scope: MetricScope, variables: Mapping[str, str], labels: Mapping[MetricScope, tuple[str, ...]]) -> None:
        """Begin with what every process has.

        Args:
            own_scope: what the process is: its labels are those of the metrics of any process as well.
            variables: the values of the scopes' variables that are fixed in this process.
            labels: which variables of each scope are labels.

        """
        self._variables = variables
        self._labels = {**labels, MetricScope.PROCESS: labels[own_scope]}
        self._sources: list[_Source[Any]] = []
        self._failures: Counter[str] = Counter()
        self._complained_s: dict[str, float] = {}
        self._turn = threading.Lock()
        self._last: tuple[float, list[Family]] = (float("-inf"), [])
        own = {name: variables[name] for name in labels[own_scope]}
        self._foreign = {
            "process": _Foreign(ProcessCollector(registry=None).collect, own),
            "platform": _Foreign(PlatformCollector(registry=None).collect, own),
            "gc": _Foreign(GCCollector(registry=CollectorRegistry()).collect, own),
        }
        self.prometheus = CollectorRegistry()
        """What prometheus_client exposes; its only collector is this registry."""
        self.prometheus.register(self)

    def add_source(self, name: str, ask: Callable[[Callable[[C], Any]], "Future[Any]"], collectors: Mapping[str, Collect[C]]) -> None:
        """Add collectors, by name, that are asked together: `ask` calls a function with their context, now or in a turn of its own."""
        self._sources.append(_Source(name, ask, collectors))

    def collect(self) -> list[Family]:
        """Return every metric there is; prometheus_client calls this for each scrape."""
        with self._turn:
            if time.monotonic() - self._last[0] >= SHARED_S:
                families = [*self._families(self._ask_all()), *self._foreign_families()]
                families.append(self._failure_family())
                self._last = (time.monotonic(), families)
            return self._last[1]

    def _ask_all(self) -> list[Sample]:
        """Ask everybody at once, then wait for each as long as the time lasts."""
        samples = Samples()
        deadline = time.monotonic() + ASK_TIMEOUT_S
        asked: list[tuple[_Source[Any], Future[_Collected] | Exception]] = []
        for source in self._sources:
            try:
                asked.append((source, source.begin()))
            except Exception as error:  # noqa: BLE001 - a source that cannot be asked costs its own metrics
                asked.append((source, error))
        for source, answer in asked:
            try:
                collected = _result(answer, deadline)
            except (Exception, CancelledError) as error:  # noqa: BLE001 - as above
                self._failed(source.name, error)
                continue
            samples.found += collected.samples
            samples.add(COLLECT_SECONDS, collected.seconds, source.name)
            for name, work in collected.later:
                own = Samples()
                try:
                    work(own)
                except Exception as error:  # noqa: BLE001 - as above
                    self._failed(name, error)
                else:
                    samples.found += own.found
            for name, failure in collected.failures:
                self._failed(name, failure)
        return samples.found

    def _failed(self, name: str, error: BaseException) -> None:
        self._failures[name] += 1
        now = time.monotonic()
        if now - self._complained_s.get(name, float("-inf")) >= _COMPLAINT_INTERVAL_S:
            self._complained_s[name] = now
            reason = "it did not answer in time" if isinstance(error, FutureTimeoutError) else repr(error)
            _logger.warning("MetricsNotCollected collector=%s reason=%s", name, reason)

    # -- for Prometheus --------------------------------------------------------------------------------------------

    def _families(self, samples: Iterable[Sample]) -> Iterator[Family]:
        families: dict[str, Family] = {}
        for sample in samples:
            metric = sample.metric
            family = families.get(metric.name)
            if family is None:
                family = families[metric.name] = self._new_family(metric)
            _add(family, sample, self._label_values(sample))
        return iter(families.values())

    def _label_values(self, sample: Sample) -> list[str]:
        scope_values = [sample.scope_values.get(name) or self._variables.get(name, "") for name in self._labels[sample.metric.scope]]
        return [value[:MAX_LABEL_LENGTH] for value in (*scope_values, *sample.label_values)]

    def _new_family(self, metric: Metric) -> Family:
        labels = (*self._labels[metric.scope], *metric.labels)
        kind: type[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily] = {
            MetricType.COUNTER: CounterMetricFamily,
            MetricType.GAUGE: GaugeMetricFamily,
            MetricType.HISTOGRAM: HistogramMetricFamily,
        }[metric.metric_type]
        return kind(metric.name, metric.meaning, labels=labels)

    def _foreign_families(self) -> Iterator[Family]:
        for name, foreign in self._foreign.items():
            try:
                yield from list(foreign.families())
            except Exception as error:  # noqa: BLE001 - it costs its own metrics only
                self._failed(name, error)

    def _failure_family(self) -> Family:
        samples = Samples()
        for name in (*self._foreign, *(source.name for source in self._sources), *(n for s in self._sources for n in s.collectors)):
            samples.add(COLLECTOR_FAILURES, self._failures[name], name)
        return next(self._families(samples.found))


def _result(answer: "Future[_Collected] | Exception", deadline: float) -> _Collected:
    if isinstance(answer, Exception):
        raise answer
    return answer.result(max(0.0, deadline - time.monotonic()))


def _add(family: Family, sample: Sample, label_values: list[str]) -> None:
    if isinstance(family, HistogramMetricFamily):
        bounds = [*(str(boundary) for boundary in sample.boundaries), "+Inf"]
        family.add_metric(label_values, list(zip(bounds, accumulate(sample.counts), strict=True)), sample.value)
    elif isinstance(family, CounterMetricFamily | GaugeMetricFamily):
        family.add_metric(label_values, sample.value)
