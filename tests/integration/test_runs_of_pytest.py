"""Runs of pytest as users of the plugin start them: on a Kafka and a Spark that they name, and with what cannot be had."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def run_pytest(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest as a user does, with a configuration of its own and no plugin but ours, named as the installed package names it."""
    command = [sys.executable, "-m", "pytest", "-p", "eventflink.testing.plugin", "-p", "no:cacheprovider", "--rootdir", str(directory)]
    known = {name: value for name, value in os.environ.items() if name != "EVENTFLINK_TEST_BOOTSTRAP"} | {"PYTHONPATH": str(ROOT)}
    known["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # What else is installed here takes longer to load than the rest of a run.
    return subprocess.run(
        [*command, *arguments], cwd=directory, env=known | environment, capture_output=True, text=True, timeout=500, check=False
    )


@pytest.mark.timeout(600)
def test_the_tests_of_the_examples_pass_on_a_kafka_and_a_spark_that_are_named(bootstrap: str, spark: str, tmp_path: Path) -> None:
    example = shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (example / "pytest.ini").write_text("[pytest]\neventflink_slots = 2\n")
    (example / "conftest.py").write_text(
        "import dataclasses\n"
        "import pytest\n"
        "@pytest.fixture(scope='session')\n"
        "def eventflink_settings(eventflink_settings):\n"
        f"    return dataclasses.replace(eventflink_settings, configuration={{'spark.remote': {spark!r}}})\n"
    )
    (example / "test_more.py").write_text(
        "import pytest\n"
        "from eventflink.testing.failures import CannotCrash\n"
        "def test_a_foreign_broker_is_left_alone(eventflink_cluster):\n"
        "    assert eventflink_cluster.settings.slots == 2\n"
        "    with pytest.raises(CannotCrash, match='not the plugin.s own'):\n"
        "        eventflink_cluster.crash('broker')\n"
        "    with pytest.raises(CannotCrash, match='standby not found: the cluster has 1 masters'):\n"
        "        eventflink_cluster.crash('standby')\n"
    )
    run = run_pytest(example, f"--eventflink-bootstrap={bootstrap}")
    assert (run.returncode, "8 passed" in run.stdout) == (0, True), run.stdout + run.stderr


USES_CLUSTER = "def test_it(eventflink_cluster):\n    pass\n"


def test_what_cannot_be_had_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(USES_CLUSTER)
    unreachable = run_pytest(tmp_path, EVENTFLINK_TEST_BOOTSTRAP="127.0.0.1:1")
    assert "eventflink: 127.0.0.1:1: list brokers: no Kafka broker answered within 10 s" in unreachable.stdout
    without_java = run_pytest(tmp_path, JAVA_HOME="", PATH="/nowhere")
    assert "eventflink: Java 17 or newer is needed" in without_java.stdout
    assert "apt-get install openjdk-17-jre-headless" in without_java.stdout
    (tmp_path / "conftest.py").write_text(
        "import pytest\n"
        "from eventflink.testing.settings import MiniClusterSettings\n"
        "@pytest.fixture(scope='session')\n"
        "def eventflink_settings():\n"
        "    return MiniClusterSettings(configuration={'restart-strategi.type': 'none'})\n"
        "@pytest.fixture(scope='session')\n"
        "def eventflink_embedded_broker():\n"
        "    pass\n"
        "@pytest.fixture(scope='session')\n"
        "def eventflink_broker():\n"
        "    return '127.0.0.1:1'\n"
    )
    wrong_key = run_pytest(tmp_path)
    assert "eventflink: -D restart-strategi.type: unknown configuration key" in wrong_key.stdout
    for run in (unreachable, without_java, wrong_key):
        assert run.returncode == 1
        assert "Traceback" not in run.stdout + run.stderr
        assert "eventflink/testing" not in run.stdout


def test_options_that_no_test_could_use_are_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(USES_CLUSTER)
    wrong = run_pytest(tmp_path, "--eventflink-bootstrap=localhost")
    assert (wrong.returncode, wrong.stderr.strip()) == (
        4,
        "ERROR: eventflink: 'localhost' is not host:port of a Kafka broker (several are separated by commas)",
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\neventflink_masters = two\n")
    wrong = run_pytest(tmp_path)
    assert (wrong.returncode, wrong.stderr.strip()) == (4, "ERROR: eventflink_masters is 'two', and is to be a whole number")


def test_a_run_that_does_not_use_the_plugin_loads_nothing_of_eventflink_but_it() -> None:
    [(name, module)] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"].items()
    loaded = f"import json, pytest, sys; before = set(sys.modules); import {module}; print(json.dumps(sorted(set(sys.modules) - before)))"
    output = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True, timeout=120).stdout
    assert name == module  # So `pytest -p` and the entry point do not register it twice.
    assert json.loads(output) == ["eventflink", "eventflink.testing", module]
