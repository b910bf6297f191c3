"""How Spark writes files here: to disks without starting processes, to stores without renaming, and no checkpoint or commit twice.

The sources are in `spark_files`. The compiler among Spark's own jars makes a
jar of them, once for each of their versions and Spark's, into the user's cache: neither a network nor a JDK is needed. The rule: the jar
appears there complete or not at all. Where it cannot be made, Spark starts with Hadoop's own classes, of which one forks several times for
each file, and others rename what is in a store by copying.
"""

import hashlib
import importlib.metadata
import logging
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from eventflink.jobs.parquet_writing import DIRECT_COMMITTER_SETTING
from eventflink.local.jars import default_cache_directory
from eventflink.local.java import JavaMissing, find_java

logger = logging.getLogger(__name__)

_SOURCES: Final = Path(__file__).parent / "spark_files"
_CLASSES: Final = tuple([_SOURCES / f"{name}.java" for name in ("NioLocalFileSystem", "DirectParquetCommitter", "StoreCheckpointFiles")])
_CLASS: Final = "eventflink.NioLocalFileSystem"
_DELTA_LOG: Final = _SOURCES / "DeltaStoreLog.java"

DELTA_LOG_CLASS: Final = "eventflink.DeltaStoreLog"
"""By which Delta writes the logs of tables in S3."""
CHECKPOINT_FILES_SETTING: Final = "spark.eventflink.storeCheckpointFiles"
"""Of a Spark server that can write checkpoints to S3: by which class."""
FILE_MANAGER_SETTING: Final = "spark.sql.streaming.checkpointFileManagerClass"
"""By which class a session of Spark writes checkpoints."""
_COMPILE_TIMEOUT_S: Final = 60.0
_PROBLEM_LINES: Final = 3


def file_system_settings(spark_jars: Path) -> dict[str, str]:
    """Return the settings with which Spark has these classes, compiling them first where that was not done; none where it fails.

    `spark_jars` is the directory of Spark's own jars.
    """
    jar = _compiled("spark-files", _CLASSES, (spark_jars,), "Spark forks for each file that it writes")
    if jar is None:
        return {}
    return {
        "spark.driver.extraClassPath": str(jar),
        "spark.hadoop.fs.file.impl": _CLASS,
        "spark.hadoop.fs.AbstractFileSystem.file.impl": f"{_CLASS}$Context",
        DIRECT_COMMITTER_SETTING: "eventflink.DirectParquetCommitter",
        CHECKPOINT_FILES_SETTING: "eventflink.StoreCheckpointFiles",
    }


def delta_log_jar(spark_jars: Path, delta_jars: Path) -> Path | None:
    """Return the jar with the class by which Delta writes the logs of tables in S3, compiled first where that was not done.

    None where it cannot be: then Spark, which is told to use it, refuses such tables.
    """
    return _compiled("spark-delta-log", (_DELTA_LOG,), (spark_jars, delta_jars), "no table of Delta in S3 can be used")


def _compiled(name: str, sources: Sequence[Path], jars: Sequence[Path], consequence: str) -> Path | None:
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    jar = default_cache_directory() / f"{name}-{importlib.metadata.version('pyspark')}-{digest}.jar"
    try:
        if not jar.is_file():
            _make(jar, sources, jars)
    except (OSError, JavaMissing, subprocess.SubprocessError) as error:
        printed = getattr(error, "stderr", None) or b""
        lines = [str(error), *printed.decode(errors="replace").splitlines()[:_PROBLEM_LINES]]
        logger.warning("SparkClassesMissing jar=%s consequence='%s' reason=%r", name, consequence, " ".join(lines))
        return None
    return jar


def _make(jar: Path, sources: Sequence[Path], jars: Sequence[Path]) -> None:
    """Compile beside the jar's place, and rename; two that do so at once make the same."""
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{jar.name}.", dir=jar.parent) as name:
        classes, made = Path(name) / "classes", Path(name) / jar.name
        classes.mkdir()
        compiler = ["org.codehaus.janino.SimpleCompiler", str(_SOURCES / "CompileForSpark.java"), "CompileForSpark"]
        class_path = os.pathsep.join(str(each) for directory in jars for each in sorted(directory.glob("*.jar")))
        command = [str(find_java()), "-XX:TieredStopAtLevel=1", "-cp", class_path, *compiler, str(classes), *map(str, sources)]
        subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_COMPILE_TIMEOUT_S, check=True)
        with zipfile.ZipFile(made, "w") as archive:
            for path in sorted(classes.rglob("*.class")):
                archive.write(path, path.relative_to(classes))
        made.replace(jar)
