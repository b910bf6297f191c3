"""An extension of Griffe, which reads the sources for the API reference: methods of the client return what their callers get.

The client's methods are generators of steps, which `gateways/gateway.py:method` runs or awaits: `Steps[JobStatus]` is a `JobStatus` to
a program that waits, and an awaitable of it in an event loop.
"""

from typing import Any

import griffe


class ClientMethods(griffe.Extension):
    """Takes `Steps[…]` off what client methods return."""

    def on_function(self, *, func: griffe.Function, **_others: Any) -> None:
        """Correct the return annotation of one function."""
        is_method = any(str(decorator.value) == "method" for decorator in func.decorators)
        returned = func.returns
        if is_method and isinstance(returned, griffe.ExprSubscript) and str(returned.left) == "Steps":
            func.returns = returned.slice
