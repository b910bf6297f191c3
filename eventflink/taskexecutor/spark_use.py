"""Which tasks are expected to use Spark: those whose definition says so, and those whose code did when it ran last.

Nothing follows from a wrong guess but time: a task that was not expected to use Spark loads its client itself. The rule it keeps: code that
has used Spark once is expected to use it again.
"""

from typing import Final

from eventflink.events.effects import TaskDeployment
from eventflink.model.statuses import TaskType

MAX_REMEMBERED: Final = 1_000
"""Of how much code it is remembered; what was first heard of is forgotten first."""

Code = tuple[tuple[str, ...], str]
"""What is the same for tasks that run the same function: their archives, which are named by their content, and its name."""


class SparkUse:
    """What is remembered of the code of tasks that have finished."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._uses: dict[Code, bool] = {}

    def is_expected(self, code: Code | None, *, by_default: bool) -> bool:
        """Tell whether a task is expected to use Spark; `by_default` where nothing is known of its code."""
        return code is None or self._uses.get(code, by_default)

    def note(self, code: Code | None, *, used: bool) -> None:
        """Remember whether a task of this code, which has finished, used Spark."""
        if code is None:
            return
        if code not in self._uses and len(self._uses) >= MAX_REMEMBERED:
            del self._uses[next(iter(self._uses))]
        self._uses[code] = used or self._uses.get(code, False)


def code_of(deployment: TaskDeployment) -> Code | None:
    """Return on which code it depends whether the task uses Spark; None: on none, its definition says so."""
    has_end = deployment.stream is not None or deployment.sink is not None or bool(deployment.sources)
    is_declared = has_end or deployment.inputs or deployment.outputs
    if deployment.task_type is not TaskType.PYTHON or is_declared:
        return None
    return tuple(deployment.code_archives), deployment.task
