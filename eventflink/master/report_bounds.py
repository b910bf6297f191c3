"""How much of a report enters the log and the state: a TaskExecutor bounds what it says, and the master does not rely on that.

What a report says is repeated by events of the master's own (of each attempt that ends with its instance, of each task that reads an
output), so what is too long is cut off, and an attempt whose outputs cannot be told to their readers fails. Pure functions.
"""

from collections.abc import Sequence
from typing import Final

from eventflink.master.exception_history import clip
from eventflink.model.attempts import FailureCause, OutputLocation

MAX_TYPE_LENGTH: Final = 512
MAX_CAUSE_LENGTH: Final = 16_384
MAX_STACK_TRACE_LENGTH: Final = 98_304
MAX_OUTPUT_NAME_LENGTH: Final = 128
MAX_LOCATION_LENGTH: Final = 4_096


def bounded_cause(cause: FailureCause) -> FailureCause:
    """Return a cause no part of which is much longer than its bound; what is too long keeps both ends."""
    trace = cause.stack_trace
    return FailureCause(
        cause.failure_type[:MAX_TYPE_LENGTH],
        clip(cause.message, MAX_CAUSE_LENGTH),
        None if trace is None else clip(trace, MAX_STACK_TRACE_LENGTH),
        cause.root_type[:MAX_TYPE_LENGTH],
        clip(cause.root_message, MAX_CAUSE_LENGTH),
    )


def find_fault_of_outputs(outputs: Sequence[OutputLocation]) -> str:
    """Return why outputs cannot be the result of an attempt, or nothing."""
    seen: set[str] = set()
    for each in outputs:
        if not 1 <= len(each.output) <= MAX_OUTPUT_NAME_LENGTH:
            return f"an output has a name of {len(each.output)} characters; it may have 1 to {MAX_OUTPUT_NAME_LENGTH}"
        if not 1 <= len(each.location) <= MAX_LOCATION_LENGTH:
            return f"the location of output '{each.output}' has {len(each.location)} characters; it may have 1 to {MAX_LOCATION_LENGTH}"
        if each.output in seen:
            return f"the output '{each.output}' is reported twice"
        seen.add(each.output)
    return ""
