"""Walks through the requests of Spark Connect: what is named in a query, or asked for, at whatever depth.

It needs nothing of Spark: the messages are protobuf's, and say themselves what they have. Plans nest as deep as somebody has written them,
so nothing here calls itself.
"""

from collections.abc import Iterator
from typing import Any


def messages_in(message: Any) -> Iterator[Any]:
    """Yield a message and all messages in it, always in the same order.

    Example:
        Of the plan of `spark.table("orders").limit(1)` these are its `Relation`, `Limit`, another `Relation`, `Read` and `NamedTable`.

    """
    left = [message]
    while left:
        found = left.pop()
        yield found
        for field, value in found.ListFields():
            if field.message_type is None:
                continue
            if hasattr(value, "ListFields"):
                left.append(value)
            else:  # A repeated field, or a map whose values may be messages.
                values = value.values() if field.message_type.GetOptions().map_entry else value
                left.extend(each for each in values if hasattr(each, "ListFields"))
