"""What Flink's clients say when they run a jar, in the body or in the query, and what becomes of it in a document.

The rule it keeps: an option has Flink's meaning, or it is refused by name. None is ignored.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from eventflink.model.document_text import InvalidText, read_json
from eventflink.model.job_parameters import json_value
from eventflink.model.statuses import ParameterType
from eventflink.model.texts import did_you_mean
from eventflink.rest.errors import RestError
from eventflink.rest.flink.asynchronous import Count

MAX_ARGUMENTS: Final = 200
_MAX_TEXT: Final = 4_096
_NO_CLAIM: Final = "NO_CLAIM"


def _none_if_empty(value: object) -> object:
    return None if value == "" else value


Text = Annotated[Annotated[str, Field(max_length=_MAX_TEXT)] | None, BeforeValidator(_none_if_empty)]
Number = Annotated[Count | None, BeforeValidator(_none_if_empty)]


class JarPlanRequestBody(BaseModel):
    """What a plan is of; what is empty was not said."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    entry_class: Text = Field(default=None, validation_alias=AliasChoices("entryClass", "entry-class"))
    program_args: Text = Field(default=None, validation_alias="programArgs")
    program_args_list: Annotated[list[Annotated[str, Field(max_length=_MAX_TEXT)]], Field(max_length=MAX_ARGUMENTS)] | None = Field(
        default=None, validation_alias="programArgsList"
    )
    parallelism: Number = None
    job_id: Text = Field(default=None, validation_alias="jobId")
    flink_configuration: dict[str, str] | None = Field(default=None, validation_alias="flinkConfiguration")
    savepoint_path: Text = Field(default=None, validation_alias="savepointPath")
    allow_non_restored_state: bool | None = Field(default=None, validation_alias="allowNonRestoredState")


class JarRunRequestBody(JarPlanRequestBody):
    """How a job is run."""

    claim_mode: Text = Field(default=None, validation_alias="claimMode")
    restore_mode: Text = Field(default=None, validation_alias="restoreMode")


class JarRunApplicationRequestBody(JarRunRequestBody):
    """How a job is run that is asked for as an application."""

    application_id: Text = Field(default=None, validation_alias="applicationId")


class QueryOptions(BaseModel):
    """The same in the query, for what the body does not say."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    entry_class: str = Field(default="", alias="entry-class", max_length=_MAX_TEXT)
    program_args: str = Field(default="", alias="program-args", max_length=_MAX_TEXT)
    program_arg: str = Field(default="", alias="programArg", max_length=_MAX_TEXT)
    """With commas between the arguments."""
    parallelism: Count | None = None
    savepoint_path: str = Field(default="", alias="savepointPath", max_length=_MAX_TEXT)
    allow_non_restored_state: bool = Field(default=False, alias="allowNonRestoredState")


QueryOptionsOfRequest = Annotated[QueryOptions, Query()]


@dataclass(frozen=True, slots=True)
class JarOptions:
    """What was asked for, checked."""

    entry: str
    arguments: Mapping[str, str]
    """Values of parameters, as text, by name."""
    parallelism: int | None
    job_id: str | None
    savepoint_path: str | None
    allow_non_restored_state: bool


def options_of(body: JarPlanRequestBody | None, query: QueryOptions) -> JarOptions:
    """Return what was asked for; the body comes before the query.

    Raises:
        RestError: 400, an option is not for here, or two of them contradict each other; names it.

    """
    said = body or JarPlanRequestBody()
    if said.flink_configuration:
        names = ", ".join(sorted(said.flink_configuration))[:_MAX_TEXT]
        raise _refused(f"flinkConfiguration: {names}: a job has its settings in its document, and the cluster in its configuration")
    job_id = said.job_id
    if isinstance(said, JarRunRequestBody):
        for name, mode in (("claimMode", said.claim_mode), ("restoreMode", said.restore_mode)):
            if mode is not None and mode != _NO_CLAIM:
                raise _refused(f"{name}: '{mode}': a job begins in a copy of a savepoint, which stays its owner's: that is {_NO_CLAIM}")
    if isinstance(said, JarRunApplicationRequestBody) and said.application_id is not None:
        if job_id not in (None, said.application_id):
            raise _refused("applicationId: an application has the id of its job, and jobId is another one")
        job_id = said.application_id
    return JarOptions(
        entry=said.entry_class or query.entry_class,
        arguments=_named(_words(said, query)),
        parallelism=said.parallelism or query.parallelism,
        job_id=job_id,
        savepoint_path=said.savepoint_path or query.savepoint_path or None,
        allow_non_restored_state=query.allow_non_restored_state if said.allow_non_restored_state is None else said.allow_non_restored_state,
    )


def with_options(document: dict[str, Any], options: JarOptions) -> dict[str, Any]:
    """Return a document with the parallelism of what states none, and with arguments in the place of the parameters of their names.

    A parameter that the job declares is given its value; of a vertex an argument takes the place of what the document has.

    Raises:
        RestError: 400, there is nothing that an option is for; names it.

    """
    vertices = document.get("vertices")
    made = [dict(vertex) if isinstance(vertex, dict) else vertex for vertex in vertices] if isinstance(vertices, list) else []
    there = [vertex for vertex in made if isinstance(vertex, dict)]
    if options.parallelism is not None:
        without = [vertex for vertex in there if "parallelism" not in vertex]
        if not without:
            raise _refused("parallelism: each vertex of the document states its own, and that counts")
        for vertex in without:
            vertex["parallelism"] = options.parallelism
    declared = dict(_parameters_of(document))
    for name, text in options.arguments.items():
        if isinstance(of_job := declared.get(name), dict):
            declared[name] = of_job | {"value": _declared_value(name, text, of_job.get("type"))}
            continue
        taking = [vertex for vertex in there if name in _parameters_of(vertex)]
        if not taking:
            known = {str(key) for each in (document, *there) for key in _parameters_of(each)}
            raise _refused(f"programArgs: neither the job nor a vertex has the parameter '{name}'{did_you_mean(name, known)}")
        for vertex in taking:
            vertex["parameters"] = vertex["parameters"] | {name: _value_of(name, text, vertex["parameters"][name])}
    changed = ({"parameters": declared} if declared else {}) | ({"vertices": made} if made else {})
    return document | changed


def _parameters_of(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters that a document, or a vertex of it, has."""
    parameters = part.get("parameters")
    return parameters if isinstance(parameters, dict) else {}


def _words(said: JarPlanRequestBody, query: QueryOptions) -> list[str]:
    if said.program_args is not None and said.program_args_list:
        raise _refused("programArgs and programArgsList: only one of them can say what the arguments are")
    if said.program_args_list:
        return said.program_args_list
    if said.program_args is None and query.program_arg and query.program_args:
        raise _refused("programArg and program-args: only one of them can say what the arguments are")
    if said.program_args is None and query.program_arg:
        return query.program_arg.split(",")
    try:
        return shlex.split(said.program_args or query.program_args)
    except ValueError as error:
        raise _refused(f"programArgs: {error}") from error


def _named(words: list[str]) -> dict[str, str]:
    """Return the arguments `--name value` and `--name=value`, as Flink's ParameterTool reads them."""
    if len(words) > MAX_ARGUMENTS:
        raise _refused(f"programArgs: {len(words)} words, and at most {MAX_ARGUMENTS} are taken")
    named: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, is_whole, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not name:
            raise _refused(f"programArgs: '{word}': an argument is --NAME VALUE, for the parameter NAME")
        if not is_whole and (following := next(rest, None)) is None:
            raise _refused(f"programArgs: '{word}' has no value")
        if name in named:
            raise _refused(f"programArgs: '{name}' has two values")
        named[name] = value if is_whole else str(following)
    return named


def _value_of(name: str, text: str, before: object) -> object:
    """Return a value of the same kind as the one that the document has."""
    if before is None or isinstance(before, str):
        return text
    value: object
    try:
        value, why = read_json(text), ""
    except InvalidText as error:
        value, why = text, f": {error}"
    kinds = int | float if isinstance(before, int | float) and not isinstance(before, bool) else type(before)
    if not isinstance(value, kinds) or isinstance(value, bool) != isinstance(before, bool):
        known = json.dumps(before, default=str)[:_MAX_TEXT]
        raise _refused(f"programArgs: {name}: '{text}' is not of the kind of {known}, as the document has it{why}")
    return value


def _declared_value(name: str, text: str, type_name: object) -> object:
    """Return the value that a text says of a parameter that the job declares."""
    try:
        parameter_type = ParameterType(str(type_name).upper())
    except ValueError:
        return text  # There is no such type: the document is refused for it.
    try:
        return json_value(parameter_type, text)
    except ValueError as error:
        raise _refused(f"programArgs: {name}: {error}") from error


def _refused(message: str) -> RestError:
    return RestError(HTTPStatus.BAD_REQUEST, message)
