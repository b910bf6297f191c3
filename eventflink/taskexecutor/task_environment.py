"""Which environment variables tasks have, and the Spark that runs what they ask for: named ones, and none besides.

A TaskExecutor's own environment has credentials of the cluster (of its Kafka, its storages, its host) that are no task's business. The
rule: what is not named here or in the configuration is not there.
"""

from collections.abc import Mapping, Sequence
from typing import Final

ALWAYS: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "XDG_CACHE_HOME"),
    *("PYTHON*", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    *("JAVA_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "HADOOP_HOME", "HADOOP_CONF_DIR"),
    *("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_DIRS", "SPARK_LOCAL_IP"),
    *("OMP_*", "OPENBLAS_*", "MKL_*", "NUMEXPR_*", "ARROW_*", "JE_ARROW_MALLOC_CONF"),
    *("EVENTFLINK_TRACE", "EVENTFLINK_IVY_SETTINGS"),
)
"""Where things are and how they run. A name that ends with an asterisk is the beginning of names.

Streams speak to Kafka as their TaskExecutor does: they are told its settings with references in place of secrets, and where one is to a
variable, that has to be named in the configuration.
"""


def inherited(environment: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return what of an environment tasks have: what they always have, and these `names`; an asterisk alone is everything."""
    wanted = (*ALWAYS, *names)
    exact = {name for name in wanted if not name.endswith("*")}
    beginnings = tuple(name[:-1] for name in wanted if name.endswith("*"))
    return {name: value for name, value in environment.items() if name in exact or name.startswith(beginnings)}
