"""Tasks have the environment variables that are named, and the credentials of a cluster are not among those that always are."""

import pytest

from eventflink.model.configuration import ConfigurationError, build_configuration
from eventflink.taskexecutor.spark_server import SparkServerSettings
from eventflink.taskexecutor.task_environment import inherited

OWN = {
    "PATH": "/bin",
    "PYTHONPATH": "/code",
    "LC_ALL": "C",
    "JAVA_HOME": "/java",
    "FSSPEC_S3_SECRET": "s",
    "AWS_SECRET_ACCESS_KEY": "s",
    "KAFKA_PASSWORD": "s",
    "EVENTFLINK_TOKEN": "s",
    "PATHOLOGICAL": "s",
}


@pytest.mark.parametrize(
    ("named", "more"),
    [
        ("", set()),
        ("AWS_SECRET_ACCESS_KEY", {"AWS_SECRET_ACCESS_KEY"}),
        ("FSSPEC_*,KAFKA_PASSWORD,MISSING", {"FSSPEC_S3_SECRET", "KAFKA_PASSWORD"}),
        ("*", set(OWN)),
    ],
)
def test_tasks_have_what_is_named_and_what_says_where_things_are(named: str, more: set[str]) -> None:
    configuration = build_configuration({"taskmanager.task.environment": named}, "test")
    names = configuration.task_environment_names
    assert inherited(OWN, names) == {name: OWN[name] for name in {"PATH", "PYTHONPATH", "LC_ALL", "JAVA_HOME"} | more}
    assert SparkServerSettings.of(configuration).environment == names


@pytest.mark.parametrize("named", ["A=B", "A,,B", "*A", "A, B", "A*B", "A**"])
def test_what_is_no_name_is_refused(named: str) -> None:
    with pytest.raises(ConfigurationError, match=r"taskmanager\.task\.environment: invalid name of an environment variable: '"):
        build_configuration({"taskmanager.task.environment": named}, "test")
