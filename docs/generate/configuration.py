"""The page docs/generated/configuration.md, made of the model of the configuration, so that the two cannot differ."""

from enum import StrEnum
from typing import Any, Final

from pydantic_core import PydanticUndefined

from eventflink.model.described_keys import describe_keys

_INTRODUCTION: Final = """\
# Configuration

<!-- Generated from eventflink/model/configuration.py: do not edit this page, run `python -m docs.generate`. -->

A process reads one YAML file: the one that `-c` or the environment variable `EVENTFLINK_CONFIG` names, or `eventflink.yaml` in a
directory named so or by `EVENTFLINK_CONF_DIR`, or else `conf/eventflink.yaml` of the working directory, or of the nearest one above that
has it and where it is this user's or root's; without any, all defaults hold. A relative path in a file of a directory called `conf`
begins at the directory that holds `conf`; elsewhere it begins at the working directory.
`eventflink config` shows what holds, and where it comes from. Keys are written flat (`heartbeat.interval: 1000`) or nested; `-D
key=value` on the command line comes before the file. `--bootstrap` and `--cluster-id` are short for the two keys of that name. An unknown
key, or a value of the wrong type or out of its bounds, is an error that names the key, and for an unknown key the nearest known one;
nothing is started then.

Durations are whole milliseconds. Sizes are bytes, or a whole number with `k`, `m`, `g` or `t` behind it (`512m`).
[conf/eventflink.yaml](../../conf/eventflink.yaml) holds every key with its default, commented out.

"""

_RULES: Final = """
## What must fit together

`taskmanager.self-fence-timeout` + `taskmanager.kill-timeout` must be less than `heartbeat.interval` * `heartbeat.missed-beats`: a
TaskExecutor that is cut off has ended its tasks before a master can declare it lost and start them elsewhere. All processes of one
cluster must agree on `cluster.id`, and masters and TaskExecutors on the heartbeat keys.

What a master decides with (restart and failover strategy, slot timeout, horizons, store capacity) is written into its decisions; replay
never asks the configuration, so a master that is configured differently reads the same state from the same log. A job keeps the strategies,
and the size of its exception history, with which it began.

While a cluster is upgraded, and a master is still there that knows neither exponential-delay nor failure-rate, jobs that would take these
as the cluster's default get a fixed delay instead: of `max-backoff` without limit, or of the failure rate's delay and number of failures;
and their failover strategy is region.
"""


def _shown(value: Any) -> str:
    if value is PydanticUndefined:
        return "none: it must be given"
    if value is None or value in ("", {}):
        return "empty"
    if isinstance(value, StrEnum):
        return f"`{value.lower().replace('_', '-')}`"
    return f"`{value}`"


def render() -> str:
    """Return the page."""
    lines = ["| key | type | default | bounds | meaning |", "|---|---|---|---|---|"]
    for described in describe_keys():
        meaning = described.meaning.replace("|", "\\|")
        lines.append(f"| `{described.key}` | {described.type_name} | {_shown(described.default)} | {described.bounds} | {meaning} |")
    return _INTRODUCTION + "\n".join(lines) + "\n" + _RULES
