"""Which Spark a task of this TaskExecutor runs on: the one that it names, or the one of tasks that name none.

What an engine is, the configuration says (`model/spark_engines.py`); its session is `task_spark.py`'s. The rule it keeps: a secret is read
where it is used, in the process of the task, and is in no address that is logged.
"""

from collections.abc import Iterable

from eventflink.model.references import SecretMissing, reference_of, resolve
from eventflink.model.secret_masks import hide
from eventflink.model.spark_engines import LOCAL, SparkEngine, address_of
from eventflink.taskexecutor.spark_server import SparkUnavailable


def find_engine(engines: Iterable[SparkEngine], name: str) -> SparkEngine:
    """Return the engine of that name; empty: the one of tasks that name none.

    Raises:
        SparkUnavailable: there is none; the message names those that there are.

    """
    if name == LOCAL:
        return SparkEngine(LOCAL)
    known = {engine.name: engine for engine in engines}
    if name not in known:
        names = ", ".join([LOCAL, *filter(None, known)])
        raise SparkUnavailable(
            f"Spark engine '{name}' not found: this TaskExecutor has {names}; name one of these, or add spark.engines.{name}.remote to the "
            "configuration of every TaskExecutor"
        )
    return known[name]


def full_address(engine: SparkEngine) -> str:
    """Return the address of an engine elsewhere with its token.

    Raises:
        SparkUnavailable: the token cannot be read, or is empty.

    """
    if not engine.token:
        return engine.remote
    token = _resolve(f"spark.engines.{engine.name}.token", engine.token)
    base, _, parameters = engine.remote.partition("/;")
    return f"{base.rstrip('/')}/;{parameters.rstrip(';') + ';' if parameters else ''}token={token}"


def session_settings(engine: SparkEngine) -> dict[str, str]:
    """Return what each session on an engine is given.

    Raises:
        SparkUnavailable: a secret cannot be read, or is empty.

    """
    return {key: _resolve(f"spark.engines.{engine.name}.settings.{key}", value) for key, value in engine.settings.items()}


def _resolve(key: str, value: str) -> str:
    if not reference_of(value)[0]:
        return value
    try:
        secret = resolve(key, value)
    except SecretMissing as error:
        raise SparkUnavailable(str(error)) from error
    if not secret:
        raise SparkUnavailable(f"{key}: what it refers to is empty")
    hide(secret)
    return secret


def key_of(engine: SparkEngine) -> str:
    """Return the key of the configuration that has the address of an engine elsewhere."""
    return f"spark.engines.{engine.name}.remote" if engine.name else "spark.remote"


def is_elsewhere(engines: Iterable[SparkEngine], remote: str) -> bool:
    """Tell whether an address is that of an engine elsewhere, and not of a Spark of this host."""
    return any(engine.remote and address_of(engine.remote) == address_of(remote) for engine in engines)


def addresses_at(engines: Iterable[SparkEngine], address: str) -> list[str]:
    """Return how the Spark at an address of an earlier attempt is reached: as every engine says that is there, or by the address alone.

    Raises:
        SparkUnavailable: a token cannot be read.

    """
    found = [full_address(engine) for engine in engines if engine.remote and address_of(engine.remote) == address]
    return list(dict.fromkeys(found)) or [address]
