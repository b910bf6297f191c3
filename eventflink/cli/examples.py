"""Command lines to copy, which `--help` shows with each command; each is a whole one, and a test reads it as a shell would."""

from typing import Final

EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "up": ("eventflink up --taskexecutors 2", "eventflink -D data.directory=/tmp/try up"),
    "cluster": ("eventflink -c conf cluster start", "eventflink -c conf cluster status", "eventflink -c conf cluster stop"),
    "broker": ("eventflink -D data.directory=/var/lib/eventflink broker",),
    "master": ("eventflink --bootstrap kafka:9092 -D jobmanager.id=master-1 master",),
    "application": ("eventflink --bootstrap kafka:9092 application my_module:main orders.csv",),
    "standalone-job": ("eventflink --bootstrap kafka:9092 standalone-job job.yaml",),
    "taskexecutor": ("eventflink --bootstrap kafka:9092 -D taskmanager.numberOfTaskSlots=4 taskexecutor",),
    "rest": ("eventflink --bootstrap kafka:9092 -D rest.bind-port=8081 rest",),
    "history-server": ("eventflink -D historyserver.archive.fs.dir=/archives history-server",),
    "notify": ("eventflink notify notify.yaml", "eventflink notify notify.yaml --dry-run --from 2026-11-21"),
    "rest-token": ("eventflink -D rest.tokens-file=/etc/eventflink/tokens rest-token ann --role operator",),
    "submit": (
        "eventflink submit job.yaml --code my_module.py",
        "eventflink submit job.yaml --param day=2026-11-25 --param limit=5",
        "eventflink submit job.yaml --detach",
        "eventflink submit job.yaml --from-savepoint /savepoints/savepoint-1",
    ),
    "run": ("eventflink run -d job.yaml", "eventflink run -s /savepoints/savepoint-1 job.yaml"),
    "info": ("eventflink info job.yaml", "eventflink info job.yaml --json"),
    "plan": (
        "eventflink plan job.yaml",
        "eventflink plan job.yaml --code my_module.py --param day=2026-11-25",
        "eventflink plan job.yaml --detailed-exitcode",
    ),
    "runs": ("eventflink runs", "eventflink runs 'nightly report' --limit 5", "eventflink runs 'nightly report' --json"),
    "dev": (
        "eventflink dev job.yaml",
        "eventflink dev job.yaml --code my_module.py --param day=2026-11-25",
        "eventflink dev job.yaml --vertex totals --rows 50",
    ),
    "list": ("eventflink list -r", "eventflink list --status FAILED --limit 10", "eventflink list --json"),
    "status": ("eventflink status", "eventflink status 3f2a", "eventflink status 3f2a --at 2026-11-21T12:00:00"),
    "top": ("eventflink top", "eventflink top --once --json"),
    "exceptions": ("eventflink exceptions 3f2a", "eventflink exceptions 3f2a --trace --limit 1"),
    "checkpoints": ("eventflink checkpoints 3f2a",),
    "backpressure": ("eventflink backpressure 3f2a",),
    "result": ("eventflink result 3f2a --limit 10", "eventflink result 3f2a --vertex totals --json"),
    "cancel": ("eventflink cancel 3f2a --wait", "eventflink cancel -s /savepoints 3f2a"),
    "suspend": ("eventflink suspend 3f2a",),
    "resume": ("eventflink resume 3f2a",),
    "rerun": (
        "eventflink rerun 3f2a --failed",
        "eventflink rerun 3f2a --failed --code nightly.py",
        "eventflink rerun 3f2a --from totals",
        "eventflink rerun 3f2a --param day=2026-11-24",
    ),
    "schedule": (
        "eventflink schedule put nightly nightly.yaml --code orders.py",
        "eventflink schedule show nightly",
        "eventflink schedule backfill nightly --from 2026-11-01 --to 2026-11-15 --at-once 3",
    ),
    "dismiss": ("eventflink dismiss 3f2a --reason 'an experiment'",),
    "shutdown": ("eventflink shutdown",),
    "checkpoint": ("eventflink checkpoint 3f2a",),
    "savepoint": (
        "eventflink savepoint 3f2a /savepoints",
        "eventflink savepoint inspect /savepoints/savepoint-1",
        "eventflink savepoint --dispose /savepoints/savepoint-1",
    ),
    "stop": ("eventflink stop 3f2a", "eventflink stop --drain --savepointPath /savepoints 3f2a"),
    "rescale": ("eventflink rescale 3f2a totals 4",),
    "taskmanager": (
        "eventflink taskmanager list",
        "eventflink taskmanager logs tm-1 --list",
        "eventflink taskmanager block tm-1 --reason 'new disk' --for 3600",
    ),
    "queues": ("eventflink queues",),
    "parked": (
        "eventflink parked list",
        "eventflink parked retry parked-1",
        "eventflink parked drop parked-1",
    ),
    "logs": ("eventflink logs 3f2a totals --subtask 1", "eventflink logs -f 3f2a"),
    "metrics": ("eventflink metrics",),
    "events": (
        "eventflink events --job 3f2a",
        "eventflink events -f --last 20",
        "eventflink events --type TaskFailed --from 2026-11-21T12:00:00 --json",
    ),
    "history": ("eventflink history 3f2a",),
    "diff": ("eventflink diff 100 200", "eventflink diff 2026-11-21T12:00:00 2026-11-21T13:00:00"),
    "why": ("eventflink why 3f2a", "eventflink why '3f2a/totals[0]'", "eventflink why tm-1"),
    "audit": ('eventflink audit "SELECT type, count(*) FROM events GROUP BY ALL"', "eventflink audit"),
    "replay": ("eventflink replay",),
    "drill": ("eventflink drill failover",),
    "topics": ("eventflink topics",),
    "log": ("eventflink log verify", "eventflink log repair --into orders-2"),
    "config": ("eventflink config", "eventflink -c conf config --json"),
    "context": (
        "eventflink context set prod --bootstrap kafka:9092 --cluster-id orders",
        "eventflink context use prod",
        "eventflink context list",
    ),
    "completion": ('eval "$(eventflink completion bash)"',),
    "doctor": ("eventflink doctor", "eventflink doctor --json"),
    "demo": ("eventflink demo",),
}


def epilog_of(command: str) -> str:
    """Return what stands below the help of a command; empty: nothing."""
    lines = EXAMPLES.get(command, ())
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)]) if lines else ""
