"""The real REST application under uvicorn, in a thread of the test, over a scripted cluster: what a browser can open.

python -m tests.support.rest_server        serves the recorded cluster on port 8099 until it is interrupted
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, TypeVar

from eventflink.rest.access.protection import Protection
from eventflink.rest.access.server_tls import ServerTls
from eventflink.rest.application import build_application
from eventflink.rest.serving import listen, serve
from tests.support.cluster import ScriptedCluster
from tests.support.recorded_cluster import recorded
from tests.support.rest_client import ScriptedDispatcher, dispatcher_of, services_with

TIMEOUT_S: Final = 20
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
def served(cluster: ScriptedCluster, ports: str = "0", tls: ServerTls | None = None, /, **configuration: str) -> Iterator[Served]:
    """Serve a cluster on a port of this host; commands reach its leader."""
    ready: list[Served] = []
    there = threading.Event()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        dispatcher = dispatcher_of(cluster)

        def announce(url: str) -> ExitStack:
            ready.append(Served(cluster, dispatcher, loop, url))
            there.set()
            return ExitStack()

        services = services_with(dispatcher.state, dispatcher, configuration)
        with listen("rest.bind-address", "127.0.0.1", "rest.bind-port", ports) as listener:
            protection = Protection(tls=tls)
            await serve(build_application(services), listener, ending, announce, end_streams=dispatcher.state.close, protection=protection)

    ending = asyncio.Event()
    thread = threading.Thread(target=asyncio.run, args=(run(),), name="rest-server")
    thread.start()
    try:
        assert there.wait(TIMEOUT_S), "the application is not served"
        yield ready[0]
    finally:
        if ready:
            ready[0]._loop.call_soon_threadsafe(ending.set)
        thread.join(TIMEOUT_S)


if __name__ == "__main__":
    with served(recorded().cluster, "8099") as serving:
        print(serving.url)
        threading.Event().wait()
