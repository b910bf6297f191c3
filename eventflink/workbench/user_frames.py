"""What a task raised, as its author reads it: the frames of the author's own code, in the author's own files, and what was raised.

The frames of this platform and of Spark's client are left out, and the JVM's. The rule it keeps: no value of a secret is in the text.
"""

import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from eventflink.model.secret_masks import masked

_FRAME: Final = '  File "'
_OTHERS: Final = ("eventflink", "pyspark", "grpc", "importlib")
"""Packages whose frames tell an author nothing."""
_JVM: Final = re.compile(r"\n*JVM stacktrace:\n.*?(?=\n\n(?:The above exception|During handling)|\Z)", re.DOTALL)
_MOST_LINKS: Final = 100


def describe_raised(error: BaseException, digest: str, members: Mapping[str, Path]) -> str:
    """Return the text of an error, those that it was raised from before it, on lines of its own; empty: no frame is the author's.

    Args:
        error: what was raised.
        digest: the name of the archive of code.
        members: where the files of it come from, by their names in there.

    """
    places = (getattr(sys.modules.get(name), "__path__", ()) for name in _OTHERS)
    others = ("<frozen ", *[f"{place}/" for paths in places for place in paths])
    told = traceback.TracebackException.from_exception(error)
    waiting, seen = [told], 0
    while waiting and seen < _MOST_LINKS:
        each, seen = waiting.pop(), seen + 1
        each.stack = traceback.StackSummary.from_list([frame for frame in each.stack if not frame.filename.startswith(others)])
        waiting += [inner for inner in (each.__cause__, each.__context__, *(each.exceptions or ())) if inner is not None]
    text = _JVM.sub("", "".join(told.format())).rstrip()
    if digest:
        packed = re.compile(rf"(?:(?<=\")[^\"\n]*|[^\"\s]*){re.escape(digest)}\.zip/([^\"\s]+)")
        text = packed.sub(lambda found: str(members.get(found[1], found[0])), text)
    return masked(f"\n{text}") if _FRAME in text else ""
