"""The resource driver of docs/resource-drivers.md keeps the laws of resource drivers, as it stands there."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from eventflink.entrypoint.factories import create_driver
from eventflink.entrypoint.resource_driver import ResourceDriver
from eventflink.model.configuration import Configuration, load_configuration
from tests.support.driver_laws import DriverLaws, Provider, wait_for

PAGE = Path(__file__).parents[2] / "docs" / "resource-drivers.md"
MODULE = "driver_of_the_page"
SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


class Host(Provider):
    """This host; its workers are processes that sleep, whatever else they are started with."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def make(self) -> ResourceDriver:
        driver = create_driver(self._configuration, SLEEPER)
        assert driver is not None
        return driver

    def _process(self, worker_id: str) -> object:
        return self.make().process_of(worker_id)  # type: ignore[attr-defined]

    def kill(self, worker_id: str) -> None:
        process = self._process(worker_id)
        assert process is not None
        process.kill()  # type: ignore[attr-defined]
        wait_for(lambda: self._process(worker_id) is None, f"{worker_id} has ended")

    def running(self) -> set[str]:
        return {worker.worker_id for worker in self.make().list_workers() if worker.is_running}


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    [source] = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    module = ModuleType(MODULE)
    exec(compile(source, str(PAGE), "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, MODULE, module)
    values = {"data.directory": str(tmp_path), "resourcemanager.driver": f"{MODULE}:DirectoryDriver"}
    return Host(load_configuration(None, values))


class TestDriverOfThePage(DriverLaws):
    """All laws."""
