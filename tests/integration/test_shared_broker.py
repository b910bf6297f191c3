"""All pytest processes of a run share one broker, whichever of them ends first, and however."""

import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from eventflink.log.admin_connection import AdminConnection
from eventflink.model.kafka_settings import KafkaAccess
from tests.support.running_cluster import wait_until
from tests.support.zygote import ROOT

USER = """
import sys
from pathlib import Path
from typing import Any
from tests.support.shared_broker import shared_broker
with shared_broker(Path(sys.argv[1])) as servers:
    print(servers, flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_the_first_has_it_started_and_it_ends_with_the_last(tmp_path: Path) -> None:
    with ExitStack() as stack:
        command = [sys.executable, "-c", USER, str(tmp_path)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        users = [stack.enter_context(subprocess.Popen(command, cwd=ROOT, text=True, **pipes)) for _ in range(2)]
        told = []
        for user in users:
            stack.callback(user.kill)
            assert user.stdout is not None
            told.append(user.stdout.readline().strip())
        assert told[0]
        assert told[0] == told[1]
        users[0].kill()
        assert users[0].wait(60) == -9
        assert AdminConnection(KafkaAccess(told[0])).count_brokers() == 1
        users[1].kill()
        wait_until(lambda: not (tmp_path / "address").exists(), "nobody is told of it any more", 60)

        host, _, port = told[0].rpartition(":")

        # A client of Kafka for each question, while its broker ends, has aborted pytest itself once.
        def is_gone() -> bool:
            try:
                socket.create_connection((host, int(port)), timeout=1.0).close()
            except OSError:
                return True
            return False

        wait_until(is_gone, "the end of the broker", 60)
