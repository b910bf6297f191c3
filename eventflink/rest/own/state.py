"""The state as clients ask for it (`reader/questions.py`): what the command line, the gateways and `eventflink.connect` ask first.

Answers are those that a client gives itself that folds the log. There are no pages and no past here; those are for people.
"""

import asyncio
import json
import time
from http import HTTPStatus
from typing import Final

from fastapi import APIRouter, Request, Response

from eventflink.documents.plain import plain
from eventflink.leadership.fold import Fold
from eventflink.model.backoff import Backoff
from eventflink.reader.questions import Found, Question, QuestionRefused, look_up, merged, question_of
from eventflink.rest.errors import RestError
from eventflink.rest.reading import OFFSET_HEADER, READ_TIMEOUT_S, DemandedOffset, ServicesOfRequest, read_archive, read_archived_runs
from eventflink.rest.services import Services
from eventflink.views.queries import SubjectNotFound

router = APIRouter()

MAX_JOBS: Final = 1_000
"""Whoever wants more rows at once folds the log."""
FIRST_LOOK_S: Final = 0.01
LONGEST_LOOK_S: Final = 0.5
"""How often it is looked whether a job has ended: after ever longer pauses, so that long jobs cost little."""


@router.get("/state/{path:path}")
async def state(request: Request, path: str, services: ServicesOfRequest, min_offset: DemandedOffset) -> Response:
    """Return what the state says: `cluster`, `overview`, `jobs`, `job-statuses`, `names`, `runs`, `schedules`, `taskmanagers`, one of them.

    A job is answered for from its archive once it has left the memory. `jobs/ID/result?wait_ms=N` waits for the job's end.
    """
    given = {name: request.query_params.getlist(name) for name in request.query_params}
    try:
        question = question_of(f"/{path}", {name: values[0] if len(values) == 1 else values for name, values in given.items()})
    except QuestionRefused as error:
        raise RestError(HTTPStatus.BAD_REQUEST, str(error)) from error
    if question.rows > MAX_JOBS:
        raise RestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {MAX_JOBS} jobs are not given at once: fold the log")
    found = await _found(services, question, min_offset)
    head = {OFFSET_HEADER: str(found.log_offset)}
    view = found.view
    if found.missing is not None and question.from_archive is not None:
        try:
            view = plain(question.from_archive(await read_archive(services.archives, found.missing)))
        except RestError as error:
            raise RestError(error.status, str(error), head) from error
    if found.runs is not None:
        archived = await read_archived_runs(services, found.runs.left)
        view = await asyncio.to_thread(merged, question, found.runs, archived)
    document = {**view, "epoch": found.epoch, "log_offset": found.log_offset}
    # In a thread, which gives way to the event loop: a job may have ten thousand tasks.
    text = await asyncio.to_thread(json.dumps, document, ensure_ascii=False)
    return Response(text, media_type="application/json", headers={**head, "Cache-Control": "no-store"})


async def _found(services: Services, question: Question, min_offset: int) -> Found:
    """Return the answer of the state, or that of the time when it was waited for long enough."""

    def compute(fold: Fold) -> Found | RestError:
        try:
            return look_up(question, fold)
        except SubjectNotFound as error:
            return RestError(HTTPStatus.NOT_FOUND, str(error), {OFFSET_HEADER: str(fold.last_offset)})

    deadline, looks_s = time.monotonic() + question.wait_s, Backoff(FIRST_LOOK_S, LONGEST_LOOK_S)
    while True:
        found = (await services.state.read(compute, min_offset=min_offset, timeout_s=READ_TIMEOUT_S)).value
        if isinstance(found, RestError):
            raise found
        left_s = deadline - time.monotonic()
        if found.is_enough(question) or left_s <= 0 or services.state.is_closed:
            return found
        await asyncio.sleep(min(looks_s.next(), left_s))
