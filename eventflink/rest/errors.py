"""What a request gets that cannot be answered: a status of HTTP, and Flink's shape of an error, `{"errors": ["…"]}`."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from eventflink.gateways.errors import (
    AccessDenied,
    ClusterNotFound,
    ClusterShuttingDown,
    ClusterUnreachable,
    DuplicateJobSubmission,
    FencingTokenMismatch,
    FileNotAvailable,
    GatewayError,
    JobEnding,
    JobNotEnded,
    JobNotFailed,
    JobTerminated,
    NoLeader,
    NothingFailed,
    RequestRefused,
    RequestTimedOut,
    TooManyUploads,
    UnknownJob,
    UnknownSchedule,
    UnknownTaskManager,
)
from eventflink.gateways.request_channel import NOT_AUTHORIZED
from eventflink.model.document_faults import describe_fault
from eventflink.reader.observed_state import NotThere

_MAX_SHOWN: Final = 10
_logger = logging.getLogger(__name__)


class Errors(BaseModel):
    """Flink's shape of an error."""

    errors: list[str]


class RestError(Exception):
    """A request that gets an error for an answer."""

    def __init__(self, status: HTTPStatus, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


def not_found(message: str) -> RestError:
    """Return the error for what does not exist."""
    return RestError(HTTPStatus.NOT_FOUND, message)


def answer_errors(application: FastAPI) -> None:
    """Let an application answer every error in that shape; the guard answers those at which this process failed."""
    application.add_exception_handler(RestError, _rest_error)
    application.add_exception_handler(HTTPException, _http_error)
    application.add_exception_handler(RequestValidationError, _validation_error)
    application.add_exception_handler(NotThere, _not_there)
    application.add_exception_handler(GatewayError, _gateway_error)


def error_response(status: int, *messages: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return an error; half of a surrogate pair, which no answer can hold, is written as JSON escapes it."""
    written = [message.encode("utf-8", "backslashreplace").decode() for message in messages]
    retry = {"Retry-After": "1"} if status == HTTPStatus.SERVICE_UNAVAILABLE else {}
    return JSONResponse(Errors(errors=written).model_dump(), status, {**retry, **(headers or {})})


def answer_to(error: RestError) -> JSONResponse:
    """Return the answer to a request that gets an error."""
    return error_response(error.status, str(error), headers=error.headers)


def _rest_error(_: Request, error: Exception) -> JSONResponse:
    return answer_to(error) if isinstance(error, RestError) else error_response(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))


def _http_error(request: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else HTTPStatus.INTERNAL_SERVER_ERROR
    if status == HTTPStatus.NOT_FOUND:
        return error_response(status, f"Not found: {request.url.path}")
    return error_response(status, f"{request.method} {request.url.path}: {error.detail if isinstance(error, HTTPException) else error}")


def _validation_error(_: Request, error: Exception) -> JSONResponse:
    problems = error.errors() if isinstance(error, RequestValidationError) else []
    messages = [f"{'.'.join(str(part) for part in problem['loc'])}: {describe_fault(problem)}" for problem in problems[:_MAX_SHOWN]]
    return error_response(HTTPStatus.BAD_REQUEST, *messages)


def _not_there(_: Request, error: Exception) -> JSONResponse:
    return error_response(HTTPStatus.SERVICE_UNAVAILABLE, str(error))


_STATUSES: Final[dict[type[GatewayError], HTTPStatus]] = {
    UnknownJob: HTTPStatus.NOT_FOUND,
    UnknownSchedule: HTTPStatus.NOT_FOUND,
    UnknownTaskManager: HTTPStatus.NOT_FOUND,
    FileNotAvailable: HTTPStatus.NOT_FOUND,
    JobTerminated: HTTPStatus.CONFLICT,
    JobEnding: HTTPStatus.CONFLICT,
    JobNotEnded: HTTPStatus.CONFLICT,
    NothingFailed: HTTPStatus.CONFLICT,
    JobNotFailed: HTTPStatus.CONFLICT,
    DuplicateJobSubmission: HTTPStatus.CONFLICT,
    ClusterShuttingDown: HTTPStatus.CONFLICT,
    FencingTokenMismatch: HTTPStatus.CONFLICT,
    RequestRefused: HTTPStatus.BAD_REQUEST,
    TooManyUploads: HTTPStatus.SERVICE_UNAVAILABLE,
    RequestTimedOut: HTTPStatus.SERVICE_UNAVAILABLE,
    NoLeader: HTTPStatus.SERVICE_UNAVAILABLE,
    AccessDenied: HTTPStatus.SERVICE_UNAVAILABLE,
    ClusterUnreachable: HTTPStatus.SERVICE_UNAVAILABLE,
    ClusterNotFound: HTTPStatus.SERVICE_UNAVAILABLE,
}
"""Of an error the status of its nearest type."""

_CONFLICTS: Final = frozenset(
    {
        "BoundByForwardEdges",
        "CheckpointInProgress",
        "JobNotRunning",
        "ReactiveMode",
        "RescaleInProgress",
        "SavepointInProgress",
        "StreamFinished",
        "StreamsNotReady",
        "VertexFinished",
    }
)
"""Codes of refusals that are for where a job stands: the same request may work at another time."""

_STATUSES_OF_CODES: Final[dict[str, HTTPStatus]] = {
    **dict.fromkeys(_CONFLICTS, HTTPStatus.CONFLICT),
    "RequestTooLarge": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "InternalError": HTTPStatus.INTERNAL_SERVER_ERROR,
    NOT_AUTHORIZED: HTTPStatus.SERVICE_UNAVAILABLE,  # It is this process that Kafka refuses, not who asks it.
}


def status_of(error: GatewayError) -> HTTPStatus:
    """Return the status of what went wrong between this process and the cluster."""
    if isinstance(error, RequestRefused) and error.code in _STATUSES_OF_CODES:
        return _STATUSES_OF_CODES[error.code]
    return next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), HTTPStatus.INTERNAL_SERVER_ERROR)


def _gateway_error(_: Request, error: Exception) -> JSONResponse:
    status = status_of(error) if isinstance(error, GatewayError) else HTTPStatus.INTERNAL_SERVER_ERROR
    return error_response(status, str(error))


def failed(method: str, path: str, error: Exception) -> JSONResponse:
    """Return the answer to a request at which this process failed."""
    _logger.error("RestFailed method=%s path=%r", method, path, exc_info=error)
    return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, f"{method} {path}: {type(error).__name__}: {error}")
