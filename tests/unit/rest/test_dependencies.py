"""What is short is done in the event loop, without waiting for a thread first; what is long is done in a thread."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import iter_route_contexts

from eventflink.reader.archives.index import ArchiveIndex
from eventflink.rest.access.guard import Admission
from eventflink.rest.application import build_application
from eventflink.rest.archived.application import build_history_application
from eventflink.rest.archived.reads import ArchiveReader
from eventflink.rest.description import Description
from tests.support.cluster import ScriptedCluster
from tests.support.rest_client import dispatcher_of, services_with


def called_for(needed: Dependant) -> Iterator[object]:
    yield needed.call
    for each in needed.dependencies:
        yield from called_for(each)


def of_a_cluster() -> FastAPI:
    dispatcher = dispatcher_of(ScriptedCluster())
    return build_application(services_with(dispatcher.state, dispatcher, {}))


def of_archives() -> FastAPI:
    return build_history_application(ArchiveReader(ArchiveIndex([], 1)), 1_000, Admission())


@pytest.mark.parametrize("make", [of_a_cluster, of_archives])
def test_nothing_that_a_route_needs_is_called_in_a_thread(make: Callable[[], FastAPI]) -> None:
    routes = make().routes
    of_routes = [getattr(route, "dependant", None) for route in iter_route_contexts(routes)]
    called = {call for needed in of_routes if needed is not None for call in called_for(needed)}
    assert len(called) > 50
    assert sorted(str(call) for call in called if not inspect.iscoroutinefunction(call)) == []


def test_the_description_is_made_once_and_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    application, threads = FastAPI(openapi_url=None), []
    make = application.openapi

    def openapi() -> dict[str, Any]:
        threads.append(threading.current_thread())
        if len(threads) == 1:
            raise ValueError("the first time it fails")
        return make()

    monkeypatch.setattr(application, "openapi", openapi)

    async def scenario() -> None:
        description, request = Description(application), Request({"type": "http"})
        with pytest.raises(ValueError, match="the first time"):
            await description.answer(request)
        answers = await asyncio.gather(*(description.answer(request) for _ in range(3)))
        assert {answer.body for answer in answers} == {(await description.answer(request)).body}
        assert len(threads) == 2
        assert threading.current_thread() not in threads

    asyncio.run(scenario())
