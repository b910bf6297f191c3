"""What a scrape says, read by prometheus_client's own parser."""

import re
import urllib.error
import urllib.request
from dataclasses import dataclass, field

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from eventflink.metrics.metric_catalogue import METRICS
from eventflink.metrics.registry import MetricRegistry

STREAM_METRICS = {metric.name for metric in METRICS if re.search("job_stream_|checkpoint", metric.name)}
"""Those that only jobs with streams have."""


@dataclass
class Scrape:
    """The samples of one exposition."""

    samples: list[Sample] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    """By the name of the family, which for counters is without `_total`."""

    @classmethod
    def of(cls, text: str) -> "Scrape":
        scrape = cls()
        for family in text_string_to_metric_families(text):
            scrape.samples += family.samples
            scrape.types[family.name] = family.type
        keys = [(s.name, *sorted(s.labels.items())) for s in scrape.samples]
        assert len(set(keys)) == len(keys), "two samples are one series"
        return scrape

    @property
    def names(self) -> set[str]:
        return {sample.name for sample in self.samples}

    def values(self, name: str, **labels: str) -> list[float]:
        """Return the values of all series of that name with these labels."""
        return [s.value for s in self.samples if s.name == name and labels.items() <= s.labels.items()]

    def one(self, name: str, **labels: str) -> float:
        """Return the value of the only such series."""
        values = self.values(name, **labels)
        assert len(values) == 1, f"{name} {labels}: {values}"
        return values[0]

    def by(self, label: str, name: str) -> dict[str, float]:
        """Return the values that are not 0, by a label."""
        return {s.labels[label]: s.value for s in self.samples if s.name == name and s.value}


def scrape_registry(registry: MetricRegistry) -> Scrape:
    """Scrape without HTTP; not to be called in a loop that is asked."""
    return Scrape.of(generate_latest(registry.prometheus).decode())


def get(address: str, path: str, **headers: str) -> tuple[int, str, str]:
    """Return status, content type and body of a page at host:port."""
    request = urllib.request.Request(f"http://{address}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def scrape_address(address: str) -> Scrape:
    """Scrape a server at host:port."""
    status, _, text = get(address, "/metrics")
    assert status == 200, text
    return Scrape.of(text)
