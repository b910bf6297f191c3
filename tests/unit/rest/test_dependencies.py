"""No request waits for a thread before it is even looked at: what routes need is made in the event loop, and waits there."""

import inspect
from collections.abc import Iterator

from fastapi.dependencies.models import Dependant
from fastapi.routing import iter_route_contexts

from eventflink.rest.application import build_application
from tests.support.cluster import ScriptedCluster
from tests.support.rest_client import dispatcher_of, services_with


def called_for(needed: Dependant) -> Iterator[object]:
    yield needed.call
    for each in needed.dependencies:
        yield from called_for(each)


def test_nothing_that_a_route_needs_is_called_in_a_thread() -> None:
    dispatcher = dispatcher_of(ScriptedCluster())
    routes = build_application(services_with(dispatcher.state, dispatcher, {})).routes
    of_routes = [getattr(route, "dependant", None) for route in iter_route_contexts(routes)]
    called = {call for needed in of_routes if needed is not None for call in called_for(needed)}
    assert len(called) > 100
    assert sorted(str(call) for call in called if not inspect.iscoroutinefunction(call)) == []
