"""The job that a pipeline is: what stands in its document, and the archive with its definitions."""

import functools
import io
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from eventflink.jobs.archive import open_file, write_archive
from eventflink.jobs.pipelines.definitions import SPEC_FILES, parts_of
from eventflink.jobs.pipelines.offline_session import IN_CONNECT_MODE
from eventflink.jobs.pipelines.reading import KnownDataSet, PipelineAnswer, PipelineFault, PipelineQuestion
from eventflink.jobs.pipelines.refresh import FULL_REFRESH, PIPELINE, REFRESH, PipelineTask
from eventflink.jobs.pipelines.statements import InvalidPipeline
from eventflink.model.job_parameters import text_of

_TIMEOUT_S: Final = 120
_REPLY: Final[TypeAdapter[PipelineAnswer | PipelineFault]] = TypeAdapter(PipelineAnswer | PipelineFault)
_PARAMETER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_NOT_IN_IDS: Final = re.compile(r"\W", re.ASCII)
_MAX_ID_LENGTH: Final = 64
_MADE: Final = frozenset({"vertices", "edges"})
_EXAMPLES: Final = {"integer": "0", "number": "0", "boolean": "false", "date": "1970-01-01", "timestamp": "1970-01-01T00:00:00Z"}
"""What a parameter is without a default, while queries are built: no value of it is used then."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The files that travel with a job that is a pipeline."""

    root: Path
    files: Sequence[Path]
    """Relative to the root."""

    def pack(self) -> bytes:
        """Return their archive.

        Raises:
            ArchiveError: one cannot be read, or they are too large together.

        """
        target = io.BytesIO()
        write_archive(target, {each.as_posix(): functools.partial(open_file, self.root / each) for each in self.files})
        return target.getvalue()


def describe_pipeline(document: Mapping[str, Any], directory: Path | None) -> tuple[dict[str, Any], Pipeline]:
    """Return a document with a vertex for each data set that a pipeline stores, and what travels with it.

    Args:
        document: names the specification under `pipeline`; has what a document may have besides, but no vertices and edges.
        directory: from which a relative path is; None: it has to be absolute.

    Raises:
        ValueError: the specification is not found, or the pipeline cannot be a job.

    """
    spec_file = _spec_file_of(document[PIPELINE], directory)
    if made := sorted(_MADE & document.keys()):
        raise ValueError(f"a document with a pipeline has no {made[0]}: each data set of the pipeline is a vertex")
    declared = document.get("parameters") or {}
    answer = _read(PipelineQuestion(spec_file=spec_file, configuration=_values_of(declared)))
    rest = {key: value for key, value in document.items() if key != PIPELINE}
    ids = _ids_of([each.name for each in answer.data_sets])
    above = _all_above({each.name: each.reads for each in answer.data_sets})
    vertices = [_vertex_of(each, ids[each.name], spec_file.name, above[each.name]) for each in answer.data_sets]
    edges = [{"from": ids[name], "to": ids[each.name], "ship": "broadcast"} for each in answer.data_sets for name in each.reads]
    parameters = _parameters_of(answer.configuration, declared)
    made_document = {"name": answer.name, **rest, "vertices": vertices, "edges": edges, "parameters": parameters}
    return made_document, Pipeline(spec_file.parent, answer.files)


def _spec_file_of(value: object, directory: Path | None) -> Path:
    if not isinstance(value, str) or not value:
        raise ValueError("give the path of a spark-pipeline.yml")
    if directory is None and not Path(value).is_absolute():
        raise ValueError(f"'{value[:128]}' is a path, and nothing says from where: give an absolute one")
    file = (directory or Path()) / value
    if file.is_dir():
        file = next((file / name for name in SPEC_FILES if (file / name).is_file()), file / SPEC_FILES[0])
    if not file.is_file():
        raise ValueError(f"pipeline not found: {file}")
    return file.resolve()


def _read(question: PipelineQuestion) -> PipelineAnswer:
    """Have the definitions read in a process of their own: their code is run there."""
    command = [sys.executable, "-m", "eventflink.jobs.pipelines.reading"]
    asked = question.model_dump_json().encode()
    # Not in the directory of the pipeline: a module of it must not come before one that reading needs.
    environment = {**os.environ, **IN_CONNECT_MODE, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        done = subprocess.run(command, input=asked, capture_output=True, timeout=_TIMEOUT_S, check=False, env=environment, cwd="/")
    except subprocess.TimeoutExpired as error:
        raise InvalidPipeline(f"its definitions were not read within {_TIMEOUT_S} s: what takes long belongs into a query") from error
    if done.returncode != 0 or not done.stdout:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        hint = "; reading it needs Spark's client: pip install 'eventflink[cluster]'" if any("'pyspark" in line for line in said) else ""
        raise InvalidPipeline(f"its definitions were not read: {said[-1][:500] if said else 'the process ended'}{hint}")
    reply = _REPLY.validate_json(done.stdout)
    if isinstance(reply, PipelineFault):
        raise InvalidPipeline(reply.message)
    return reply


def _values_of(declared: object) -> dict[str, str]:
    """Return a value for each parameter with which queries can be built."""
    if not isinstance(declared, Mapping):
        return {}
    values = {}
    for name, each in declared.items():
        if isinstance(each, Mapping):
            given = each.get("value", each.get("default"))
            values[str(name)] = text_of(given) if given is not None else _EXAMPLES.get(str(each.get("type")), "")
    return values


def _parameters_of(configuration: Mapping[str, str], declared: object) -> object:
    """Return what is declared, and each setting of the pipeline whose name a parameter can have."""
    if not isinstance(declared, Mapping):
        return declared  # It is refused with its place when the document is read.
    settings = {key: {"type": "string", "default": value} for key, value in configuration.items() if _PARAMETER.fullmatch(key)}
    anew = {"type": "string", "default": "", "description": "names of tables that begin anew, separated by commas; * for all tables"}
    return {FULL_REFRESH: anew, **settings, **declared}


def _ids_of(names: Sequence[str]) -> dict[str, str]:
    """Return the id of the vertex of each data set: the last part of its name where no other has that."""
    lasts = [parts_of(f"`{name}`")[0].rpartition(".")[2] for name in names]
    ids: dict[str, str] = {}
    for name, last in zip(names, lasts, strict=True):
        chosen = _NOT_IN_IDS.sub("_", last if lasts.count(last) == 1 else name)[-_MAX_ID_LENGTH:]
        chosen = chosen if not chosen[0].isdigit() else f"_{chosen}"[:_MAX_ID_LENGTH]
        if chosen in ids.values():
            raise InvalidPipeline(f"the vertices of '{name}' and another data set would both be called '{chosen}': rename one")
        ids[name] = chosen
    return ids


def _all_above(reads: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return what each data set reads, also by way of others; in a cycle, which is refused later, it may be itself."""
    found: dict[str, list[str]] = {}
    for name in reads:
        above: set[str] = set()
        waiting = list(reads[name])
        while waiting:
            if (each := waiting.pop()) not in above:
                above.add(each)
                waiting += reads[each]
        found[name] = sorted(above)
    return found


def _vertex_of(data_set: KnownDataSet, vertex_id: str, spec_file: str, above: list[str]) -> dict[str, Any]:
    task = PipelineTask(spec_file=spec_file, data_set=data_set.name, views=data_set.views, above=above, definition=data_set.definition)
    return {"id": vertex_id, "python": REFRESH, "parameters": {PIPELINE: task.model_dump(mode="json")}}
