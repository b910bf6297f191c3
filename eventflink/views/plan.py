"""What a submission would change: a document beside that of the newest run of its name, both without secrets.

Both have all defaults written out, so what was left to a default and what says the same are no difference.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from eventflink.documents.one_job import DocumentPage
from eventflink.documents.plan import ChangedKey, ChangedPart, JobPlan, PlannedChange
from eventflink.documents.runs import RunsPage
from eventflink.model.job_graph import DEFAULT_OUTPUT, JobGraph
from eventflink.model.job_graph_document import definition_of, graph_digest, to_document
from eventflink.model.reuse import VertexCode
from eventflink.views.job_document import shown

_PARTS: Final = ("vertices", "edges", "code_archives", "parameters", "restore", "name")
"""What is not compared as a setting of the job."""


def job_plan(graph: JobGraph, runs: RunsPage, newest: DocumentPage | None, source: str) -> JobPlan:
    """Return what a graph would change of the job of its name.

    Args:
        graph: the document, checked, with its code.
        runs: a page of the runs of its name that has the newest one.
        newest: the document of that run; None: no run is known.
        source: what the document is called in the difference of a statement.

    """
    digest = graph_digest(definition_of(graph))
    run = runs.runs[0] if runs.runs else None
    known = next((each.version for each in runs.versions if each.definition_digest == digest), None)
    before, after = newest.document if newest is not None else {}, shown(to_document(graph))
    names = (newest.job_id if newest is not None else "", source)
    parts = [
        *_parts("vertex", _vertices_with_code_of(before, after), _vertices_of(after), names),
        *_parts("edge", _edges_of(before), _edges_of(after), names),
    ]
    settings = [*_declared(before, after, names), *_settings(before, after, names), *_orders(before, after)]
    code = _code_of(before), _code_of(after)
    added, removed = [each for each in code[1] if each not in code[0]], [each for each in code[0] if each not in code[1]]
    differs = run is None or run.definition_digest != digest
    return JobPlan(
        name=graph.name,
        definition_digest=digest,
        version=known if known is not None else runs.versions_total + 1,
        is_new_version=known is None,
        newest_job_id=run.job_id if run is not None else None,
        newest_status=run.status if run is not None else None,
        newest_submitted_at=run.submitted_at if run is not None else None,
        newest_version=run.version if run is not None else None,
        parts=parts,
        settings=settings,
        code_added=added,
        code_removed=removed,
        hidden=differs and not (parts or settings or added or removed),
        values=list(_values(before, after, names)) if run is not None else [],
    )


def _orders(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[ChangedKey]:
    """Yield the lists that have the same in another order, which is part of a graph."""
    for key, names_of in (("vertices", _vertices_of), ("edges", _edges_of), ("code_archives", _code_of)):
        there = [names_of(document) for document in (before, after)]
        if [name for name in there[0] if name in there[1]] != [name for name in there[1] if name in there[0]]:
            yield ChangedKey(key=f"order of {key}", before=list(there[0]), after=list(there[1]), text_difference=[])


def _code_of(document: Mapping[str, Any]) -> dict[str, Any]:
    return dict.fromkeys(document.get("code_archives", ()))


def _vertices_of(document: Mapping[str, Any]) -> dict[str, Any]:
    return {each["id"]: each for each in document.get("vertices", ())}


def _vertices_with_code_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the vertices as they were; those with the same code have the digest that is made of it now, beside the archives of now."""
    now = _codes_of(after)
    same = {name: now[name] for name, code in _codes_of(before).items() if name in now and not code.may_differ(now[name])}
    vertices = _vertices_of(before)
    return {name: each | {"code_digest": same[name].digest or None} if name in same else each for name, each in vertices.items()}


def _codes_of(document: Mapping[str, Any]) -> dict[str, VertexCode]:
    archives = tuple(_code_of(document))
    return {name: VertexCode(each.get("code_digest") or "", archives) for name, each in _vertices_of(document).items()}


def _edges_of(document: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for edge in document.get("edges", ()):
        output = f".{edge['output']}" if edge.get("output", DEFAULT_OUTPUT) != DEFAULT_OUTPUT else ""
        as_name = f" as {edge['name']}" if edge.get("name", edge["from"]) not in (None, edge["from"]) else ""
        found[f"{edge['from']}{output} -> {edge['to']}{as_name}"] = edge
    return found


def _parts(part: str, before: Mapping[str, Any], after: Mapping[str, Any], names: tuple[str, str]) -> Iterator[ChangedPart]:
    for name in (*after, *(each for each in before if each not in after)):
        if name not in before or name not in after:
            change = PlannedChange.NEW if name in after else PlannedChange.GONE
            yield ChangedPart(part=part, name=name, change=change, keys=[])
        elif keys := list(_keys(before[name], after[name], names)):
            yield ChangedPart(part=part, name=name, change=PlannedChange.CHANGED, keys=keys)


def _settings(before: Mapping[str, Any], after: Mapping[str, Any], names: tuple[str, str]) -> Iterator[ChangedKey]:
    if before:
        sides = [{key: value for key, value in document.items() if key not in _PARTS} for document in (before, after)]
        yield from _keys(sides[0], sides[1], names)


def _declared(before: Mapping[str, Any], after: Mapping[str, Any], names: tuple[str, str]) -> Iterator[ChangedKey]:
    """Yield what differs in the parameters that the job declares, whatever their values are in this run."""
    if before:
        sides = [
            {name: {key: each[key] for key in each if key != "value"} for name, each in document.get("parameters", {}).items()}
            for document in (before, after)
        ]
        yield from _keys(sides[0], sides[1], names, "parameters")


def _values(before: Mapping[str, Any], after: Mapping[str, Any], names: tuple[str, str]) -> Iterator[ChangedKey]:
    sides = [{name: each.get("value") for name, each in document.get("parameters", {}).items()} for document in (before, after)]
    yield from _keys(sides[0], sides[1], names)
    restored = [document.get("restore") for document in (before, after)]
    if restored[0] != restored[1]:
        yield ChangedKey(key="restore", before=restored[0], after=restored[1], text_difference=[])


def _keys(before: Any, after: Any, names: tuple[str, str], place: str = "") -> Iterator[ChangedKey]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in (*after, *(each for each in before if each not in after)):
            yield from _keys(before.get(key), after.get(key), names, f"{place}.{key}" if place else str(key))
    elif before != after:
        yield ChangedKey(key=place, before=before, after=after, text_difference=_lines(before, after, names, place))


def _lines(before: Any, after: Any, names: tuple[str, str], place: str) -> list[str]:
    if place != "sql" or not isinstance(before, str) or not isinstance(after, str):
        return []
    return [line.rstrip("\n") for line in difflib.unified_diff(before.splitlines(), after.splitlines(), names[0], names[1], lineterm="")]
