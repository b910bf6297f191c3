"""The real REST application under uvicorn, in a thread of the test, over a scripted cluster: what a browser can open.

python -m tests.support.rest_server        serves the recorded cluster on port 8099 until it is interrupted
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, TypeVar

from fastapi import FastAPI

from eventflink.rest.access.protection import Protection
from eventflink.rest.access.server_tls import ServerTls
from eventflink.rest.application import build_application
from eventflink.rest.serving import listen, serve
from tests.support.cluster import ScriptedCluster
from tests.support.recorded_cluster import recorded
from tests.support.rest_client import ScriptedDispatcher, dispatcher_of, services_with

TIMEOUT_S: Final = 120
T = TypeVar("T")


class Served:
    """An application that is served."""

    def __init__(self, cluster: ScriptedCluster, dispatcher: ScriptedDispatcher, loop: asyncio.AbstractEventLoop, url: str) -> None:
        self.cluster = cluster
        self.url = url
        self._dispatcher = dispatcher
        self._loop = loop

    def change(self, act: Callable[[], T]) -> T:
        """Have something happen to the cluster, between two requests, and the state follow its log."""

        async def done() -> T:
            outcome = act()
            self._dispatcher.follow()
            return outcome

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(TIMEOUT_S)


@contextmanager
def hosted(
    make: Callable[[], tuple[FastAPI, Callable[[], None]]], ports: str = "0", tls: ServerTls | None = None
) -> Iterator[tuple[str, asyncio.AbstractEventLoop]]:
    """Serve on a port of this host what is made within the loop: an application, and what ends its streams. Give the URL and the loop."""
    ready: list[tuple[str, asyncio.AbstractEventLoop]] = []
    there = threading.Event()

    async def run() -> None:
        def announce(url: str) -> ExitStack:
            ready.append((url, asyncio.get_running_loop()))
            there.set()
            return ExitStack()

        application, end_streams = make()
        with listen("rest.bind-address", "127.0.0.1", "rest.bind-port", ports) as listener:
            await serve(application, listener, ending, announce, end_streams=end_streams, protection=Protection(tls=tls))

    ending = asyncio.Event()
    thread = threading.Thread(target=asyncio.run, args=(run(),), name="rest-server")
    thread.start()
    try:
        assert there.wait(TIMEOUT_S), "the application is not served"
        yield ready[0]
    finally:
        if ready:
            ready[0][1].call_soon_threadsafe(ending.set)
        thread.join(TIMEOUT_S)


@contextmanager
def served(cluster: ScriptedCluster, ports: str = "0", tls: ServerTls | None = None, /, **configuration: str) -> Iterator[Served]:
    """Serve a cluster on a port of this host; commands reach its leader."""
    made: list[ScriptedDispatcher] = []

    def make() -> tuple[FastAPI, Callable[[], None]]:
        made.append(dispatcher := dispatcher_of(cluster))
        return build_application(services_with(dispatcher.state, dispatcher, configuration)), dispatcher.state.close

    with hosted(make, ports, tls) as (url, loop):
        yield Served(cluster, made[0], loop, url)


if __name__ == "__main__":
    with served(recorded().cluster, "8099") as serving:
        print(serving.url)
        threading.Event().wait()
