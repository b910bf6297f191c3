"""Which tasks are expected to use Spark."""

from eventflink.events.effects import TaskDeployment, TaskInput
from eventflink.model.job_graph import StreamDefinition
from eventflink.model.statuses import ShipStrategy, StreamTrigger, TaskType
from eventflink.taskexecutor.spark_use import MAX_REMEMBERED, SparkUse, code_of
from tests.support.cluster import output_at
from tests.unit.test_taskexecutor_protocol import A, deployment


def python_task(task: str = "module:function", archives: tuple[str, ...] = ("digest",)) -> TaskDeployment:
    made = deployment(A)
    made.task_type, made.task, made.code_archives, made.inputs, made.outputs = TaskType.PYTHON, task, archives, (), ()
    return made


def test_what_is_defined_by_dataframes_uses_spark_whatever_is_remembered() -> None:
    statement, stream, reader, writer = python_task("SELECT 1"), python_task(), python_task(), python_task()
    statement.task_type = TaskType.SQL
    stream.stream = StreamDefinition(sources=(), sinks=(), trigger=StreamTrigger.PROCESSING_TIME)
    reader.inputs = (TaskInput("rows", ShipStrategy.REBALANCE, (), (output_at("/somewhere"),)),)
    writer.outputs = ("default",)
    use = SparkUse()
    for each in (statement, stream, reader, writer):
        use.note(code_of(each), used=False)
        assert use.is_expected(code_of(each), by_default=False)


def test_code_that_is_not_known_is_expected_to_do_as_the_caller_says() -> None:
    assert SparkUse().is_expected(code_of(python_task()), by_default=True)
    assert not SparkUse().is_expected(code_of(python_task()), by_default=False)


def test_code_is_expected_to_do_what_it_did_and_spark_is_never_forgotten() -> None:
    use = SparkUse()
    code = code_of(python_task())
    use.note(code, used=False)
    assert not use.is_expected(code_of(python_task()), by_default=True)
    use.note(code, used=True)
    use.note(code, used=False)
    assert use.is_expected(code_of(python_task()), by_default=False)


def test_other_code_is_not_judged_by_it() -> None:
    """The same name in another archive is another function."""
    use = SparkUse()
    use.note(code_of(python_task()), used=False)
    assert use.is_expected(code_of(python_task("module:other")), by_default=True)
    assert use.is_expected(code_of(python_task(archives=("another",))), by_default=True)
    assert use.is_expected(code_of(python_task(archives=())), by_default=True)


def test_what_is_remembered_is_bounded() -> None:
    use = SparkUse()
    for number in range(MAX_REMEMBERED + 1):
        use.note(code_of(python_task(f"module:f{number}")), used=False)
    assert use.is_expected(code_of(python_task("module:f0")), by_default=True)
    assert not use.is_expected(code_of(python_task("module:f1")), by_default=True)
    assert not use.is_expected(code_of(python_task(f"module:f{MAX_REMEMBERED}")), by_default=True)
