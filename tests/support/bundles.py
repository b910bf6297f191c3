"""Job bundles, as users zip them."""

import io
import zipfile
from collections.abc import Mapping
from typing import Final

DOCUMENT: Final = """
name: greetings
vertices:
  - {id: hello, sql: SELECT 42 AS answer}
  - {id: read, python: "greetings:read", parallelism: 2, parameters: {directory: /data, limit: 10, exact: false}}
edges:
  - {from: hello, to: read, ship: broadcast}
"""
SQL_ONLY: Final = "name: numbers\nvertices: [{id: only, sql: SELECT 1}]\n"


def bundle(members: Mapping[str, str | bytes] | None = None, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip with these members; by itself with one document, which needs no code."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in ({"job.yaml": SQL_ONLY} if members is None else members).items():
            archive.writestr(name, content)
    return stream.getvalue()
