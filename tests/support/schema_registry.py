"""A schema registry over real HTTP: the routes of Confluent's that readers and writers of records use."""

import contextlib
import http.server
import json
import threading
import urllib.parse
from collections.abc import Iterator
from http import HTTPStatus


class Registry:
    """What it was told, and how often it was asked for a schema by its id."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.schemas: list[str] = []
        """The schema with id 1 first."""
        self.subjects: dict[str, list[int]] = {}
        self.asked = 0

    def register(self, subject: str, schema: str) -> int:
        """Take a schema as the newest of a subject; the same schema has the same id."""
        if schema not in self.schemas:
            self.schemas.append(schema)
        schema_id = self.schemas.index(schema) + 1
        if schema_id not in self.subjects.setdefault(subject, []):
            self.subjects[subject].append(schema_id)
        return schema_id

    def answer(self, path: str, body: bytes) -> tuple[HTTPStatus, dict[str, object]]:
        """Return what a request is answered with."""
        match [urllib.parse.unquote(part) for part in path.strip("/").split("/")]:
            case ["schemas", "ids", number] if 0 < int(number) <= len(self.schemas):
                self.asked += 1
                return HTTPStatus.OK, {"schema": self.schemas[int(number) - 1]}
            case ["subjects", subject, "versions"] if body:
                return HTTPStatus.OK, {"id": self.register(subject, json.loads(body)["schema"])}
            case ["subjects", subject, "versions", "latest"] if subject in self.subjects:
                schema_id = self.subjects[subject][-1]
                return HTTPStatus.OK, {"subject": subject, "id": schema_id, "schema": self.schemas[schema_id - 1]}
        return HTTPStatus.NOT_FOUND, {"error_code": 40403, "message": "not found"}


@contextlib.contextmanager
def running_registry() -> Iterator[Registry]:
    """Serve one that knows nothing yet."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, document = registry.answer(self.path, self.rfile.read(int(self.headers.get("Content-Length") or 0)))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        do_POST = do_GET  # noqa: N815 - the name that http.server calls

        def log_message(self, *_arguments: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry = Registry(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
