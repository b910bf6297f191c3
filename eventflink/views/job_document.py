"""The document of a job as it was submitted, without secrets.

A document may hold passwords: in the options of its sources and sinks, in parameters, in addresses. None of them is shown.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from eventflink.documents.one_job import DocumentPage
from eventflink.leadership.fold import Fold
from eventflink.master.job_master import JobMaster
from eventflink.model.job_graph_document import to_document
from eventflink.model.secret_references import reference_name
from eventflink.model.secret_values import HIDDEN, is_hidden, key_below, without_secrets
from eventflink.views.plain import iso_time
from eventflink.views.queries import job_of

_ADDRESS: Final = re.compile(r"(?<=\w)://\S+")
"""From behind its scheme on: who looked for the scheme first would look through a long word from each of its letters."""

_CODE: Final = ("sql", "python")
"""Keys whose text is a program: of it only addresses have credentials."""

_PARAMETERS: Final = "parameters"
"""Under it is a mapping of a user's own keys, of which the only one may be `secret`."""

_VALUES: Final = ("value", "default")
"""What a record of a parameter has that is one of its values."""

_IN_JSON: Final = "_json"
"""How a key of an event ends whose text is a document of its own."""


def document_view(fold: Fold, job_id: str) -> DocumentPage:
    """Return the document of a job, who submitted it and when; raises `JobNotFound`."""
    return document_later(fold, job_id)()


def document_of(job: JobMaster) -> DocumentPage:
    """Return the same of a job in memory."""
    return _document_of(job)()


def document_later(fold: Fold, job_id: str) -> Callable[[], DocumentPage]:
    """Return what makes that view, in any thread: nothing changes a graph, and to search a large one for secrets takes a while."""
    return _document_of(job_of(fold, job_id))


def _document_of(job: JobMaster) -> Callable[[], DocumentPage]:
    graph, job_id = job.execution_graph.graph, job.job_id
    graph_digest, actor, submitted_at = job.graph_digest, job.actor, iso_time(job.submitted_at_ms)
    return lambda: DocumentPage(
        job_id=job_id, graph_digest=graph_digest, actor=actor, submitted_at=submitted_at, document=shown(to_document(graph))
    )


def shown(value: Any, key: str = "") -> Any:
    """Return a part of a document, or of an event that has one, without secrets; `key` is what it stands under."""
    if isinstance(value, Mapping):
        if key != _PARAMETERS and reference_name(value) is not None:
            return dict(value)  # It only says which secret.
        return {name: shown(each, key_below(key, name)) for name, each in value.items()}
    if isinstance(value, list):
        return [_shown_parameter(each) if key == _PARAMETERS else shown(each, key) for each in value]
    # Under the key of a secret the text is the secret, whatever it is written in.
    if key.endswith(_IN_JSON) and not is_hidden(key) and isinstance(value, str) and (inner := _shown_json(value)) is not None:
        return inner
    if key in _CODE and isinstance(value, str):
        return _ADDRESS.sub(lambda found: str(without_secrets("", found[0])), value)
    return without_secrets(key, value)


def _shown_parameter(value: Any) -> Any:
    """Return a parameter of a job, as an event has it: its values are judged by its name."""
    if not isinstance(value, Mapping) or not isinstance(name := value.get("name"), str):
        return shown(value, _PARAMETERS)
    return {key: shown(each, name if key in _VALUES else key) for key, each in value.items()}


def _shown_json(text: str) -> str | None:
    """Return a text that is JSON, without secrets; None: it is no JSON, as the text under a user's own key may be."""
    try:
        return json.dumps(shown(json.loads(text), _PARAMETERS), ensure_ascii=False)
    except RecursionError:  # It nests too deeply for anybody to find its secrets.
        return HIDDEN
    except ValueError:
        return None
