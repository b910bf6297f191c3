"""Reads the files of a pipeline, as Spark's runner does: its own decorators (`pyspark.pipelines`) hand over what is defined.

The function of a flow is called at once, also in a loop. What asks for rows, or changes the session, is refused there. Files are read in
the order of their names.
"""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from eventflink.jobs.pipelines.definitions import Definitions
from eventflink.jobs.pipelines.statements import InvalidPipeline

if TYPE_CHECKING:
    from pyspark.pipelines.cli import PipelineSpec
    from pyspark.sql import SparkSession


def files_of(spec_file: Path, spec: "PipelineSpec") -> list[Path]:
    """Return the files with definitions that a specification names, each once, in the order of their names."""
    root = spec_file.parent.resolve()
    found = {each for library in spec.libraries for each in root.glob(library.include) if each.is_file()}
    return sorted(each for each in found if "__pycache__" not in each.parts)


def read_definitions(
    spec_file: Path, spec: "PipelineSpec", session: "SparkSession", wanted: Callable[[str], bool] = lambda _: True
) -> Definitions:
    """Read the files of a pipeline.

    Args:
        spec_file: the specification, in the directory of the pipeline.
        spec: what it says.
        session: with which queries are made.
        wanted: whether the queries are made that write to the data set of a name.

    Raises:
        InvalidPipeline: a definition cannot be had in a job.
        Exception: what the code of a file raises.

    """
    from pyspark.pipelines.block_session_mutations import block_session_mutations  # noqa: PLC0415 - Spark is loaded by those who use it
    from pyspark.pipelines.graph_element_registry import graph_element_registration_context  # noqa: PLC0415 - likewise

    from eventflink.jobs.pipelines.registry import Registry  # noqa: PLC0415 - likewise

    registry = Registry(spec, session, wanted)
    root = spec_file.parent.resolve()
    with graph_element_registration_context(registry):
        for file in files_of(spec_file, spec):
            name = file.relative_to(root).as_posix()
            if file.suffix == ".sql":
                registry.register_sql(file.read_text(encoding="utf-8"), Path(name))
            elif file.suffix == ".py":
                # By names from the pipeline's directory, so that functions are the same wherever that is.
                module = ModuleType(file.stem)
                module.__dict__.update({"spark": session, "__file__": name})
                with block_session_mutations():
                    exec(compile(file.read_bytes(), name, "exec"), module.__dict__)  # noqa: S102 - it is what the user submits
            else:
                raise InvalidPipeline(f"invalid file of definitions: {name}; only .py and .sql files may match a glob of 'libraries'")
    return registry.finish()
