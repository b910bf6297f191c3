"""The owner, the description, the labels and the links of a job, and the keys of a document that declare them.

None of them changes how the job runs. The rules of this module: a link leads to a page, and runs nothing; neither links nor labels hold a
secret.

    owner: finance
    description: The revenue of a day.
    labels: {team: finance, tier: "1"}
    links: {runbook: "https://wiki.example.org/revenue"}
"""

import re
from collections.abc import Iterable
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from eventflink.model.document_faults import describe_value
from eventflink.model.job_graph import JobAbout, JobLabel, JobLink
from eventflink.model.secret_values import has_credentials, holds_secret

MAX_LABELS: Final = 32
MAX_LINKS: Final = 16
_LABEL: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?")


def _labels(labels: dict[str, str]) -> dict[str, str]:
    for name in labels:
        if not _LABEL.fullmatch(name):
            rule = "letters, digits, '.', '_', '/' and '-', at most 63, the first and the last a letter or a digit"
            raise ValueError(f"invalid name of a label: {describe_value(name)}: it has {rule}")
        if holds_secret(name):
            raise ValueError(f"invalid name of a label: {describe_value(name)}: it names a secret, and everybody sees labels")
    return labels


def _link(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_page = parts.scheme in ("http", "https") and bool(parts.hostname) and url.isprintable() and " " not in url
    except ValueError:
        is_page = False
    if not is_page:
        raise ValueError(f"must be an address that begins with http:// or https://, not {describe_value(url)}")
    if has_credentials(url):
        raise ValueError("invalid address: it has a user, password, token or key in it, and everybody sees links")
    return url


Owner = Annotated[str, Field(max_length=128)]
Description = Annotated[str, Field(max_length=1_024)]
Labels = Annotated[dict[str, Annotated[str, Field(max_length=128)]], Field(max_length=MAX_LABELS), AfterValidator(_labels)]
Links = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=64)], Annotated[str, Field(max_length=2_048), AfterValidator(_link)]],
    Field(max_length=MAX_LINKS),
]


def about_of(owner: str, description: str, labels: dict[str, str], links: dict[str, str]) -> JobAbout | None:
    """Return what a document says of a job; None: nothing."""
    if not (owner or description or labels or links):
        return None
    found = tuple(JobLabel(name, labels[name]) for name in sorted(labels))
    return JobAbout(owner, description, found, tuple(JobLink(title, links[title]) for title in sorted(links)))


def about_document(about: JobAbout) -> dict[str, Any]:
    """Return the keys of a document that say so."""
    said: dict[str, Any] = {"owner": about.owner, "description": about.description, "labels": labels_of(about), "links": links_of(about)}
    return {key: value for key, value in said.items() if value}


def labels_of(about: JobAbout | None) -> dict[str, str]:
    """Return the labels by name."""
    return {each.name: each.value for each in about.labels} if about is not None else {}


def links_of(about: JobAbout | None) -> dict[str, str]:
    """Return the addresses by their titles."""
    return {each.title: each.url for each in about.links} if about is not None else {}


def has_labels(about: JobAbout | None, asked: Iterable[str]) -> bool:
    """Return whether a job has all labels that are asked for: `team=finance` by its value, `team` with any.

    Example:
        `has_labels(JobAbout(labels=(JobLabel("team", "finance"),)), ["team"])` is true.

    """
    labels = labels_of(about)
    for each in asked:
        name, equals, value = each.partition("=")
        if name not in labels or (equals and labels[name] != value):
            return False
    return True
