"""Hadoop's local file system as Spark has it here: one that starts no processes, and by which no file of a checkpoint is written twice.

Its source is `spark_files/NioLocalFileSystem.java`. The compiler among Spark's own jars makes a jar of it, once for each of its versions
and Spark's, into the user's cache: neither a network nor a JDK is needed. The rule: the jar appears there complete or not at all. Where it
cannot be made, Spark starts with Hadoop's own, which forks several times for each file.
"""

import hashlib
import importlib.metadata
import logging
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from eventflink.local.jars import default_cache_directory
from eventflink.local.java import JavaMissing, find_java

logger = logging.getLogger(__name__)

_SOURCES: Final = Path(__file__).parent / "spark_files"
_SOURCE: Final = _SOURCES / "NioLocalFileSystem.java"
_CLASS: Final = "eventflink.NioLocalFileSystem"
_COMPILE_TIMEOUT_S: Final = 60.0
_PROBLEM_LINES: Final = 3


def file_system_settings(spark_jars: Path) -> dict[str, str]:
    """Return the settings with which Spark has the file system, compiling it first where that was not done; none where it fails.

    `spark_jars` is the directory of Spark's own jars.
    """
    version = importlib.metadata.version("pyspark")
    jar = default_cache_directory() / f"spark-local-files-{version}-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]}.jar"
    try:
        if not jar.is_file():
            _make(jar, spark_jars)
    except (OSError, JavaMissing, subprocess.SubprocessError) as error:
        printed = getattr(error, "stderr", None) or b""
        lines = [str(error), *printed.decode(errors="replace").splitlines()[:_PROBLEM_LINES]]
        logger.warning("LocalFileSystemMissing consequence='Spark forks for each file that it writes' reason=%r", " ".join(lines))
        return {}
    return {
        "spark.driver.extraClassPath": str(jar),
        "spark.hadoop.fs.file.impl": _CLASS,
        "spark.hadoop.fs.AbstractFileSystem.file.impl": f"{_CLASS}$Context",
    }


def _make(jar: Path, spark_jars: Path) -> None:
    """Compile beside the jar's place, and rename; two that do so at once make the same."""
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{jar.name}.", dir=jar.parent) as name:
        classes, made = Path(name) / "classes", Path(name) / jar.name
        classes.mkdir()
        compiler = ["org.codehaus.janino.SimpleCompiler", str(_SOURCES / "CompileForSpark.java"), "CompileForSpark"]
        command = [str(find_java()), "-XX:TieredStopAtLevel=1", "-cp", str(spark_jars / "*"), *compiler, str(_SOURCE), str(classes)]
        subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_COMPILE_TIMEOUT_S, check=True)
        with zipfile.ZipFile(made, "w") as archive:
            for path in sorted(classes.rglob("*.class")):
                archive.write(path, path.relative_to(classes))
        made.replace(jar)
