"""The dashboard's files at `/ui/`: what is in `dashboard/` is read once and served from memory, and nothing else can be asked for.

Its pages have paths of their own below `/ui/`, which all are answered with the one document, that draws the page which its address names.
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from eventflink.rest.access.browsers import content_security_policy
from eventflink.rest.errors import error_response

BASE: Final = "/ui"
DOCUMENT: Final = "index.html"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_IMPORT_MAP: Final = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class DashboardFile:
    """A file as it is served."""

    content: bytes
    media_type: str
    etag: str


@cache
def dashboard_files() -> dict[str, DashboardFile]:
    """Return all files by their paths below `/ui/`."""
    return dict(_read(files("eventflink.rest") / "dashboard", ""))


def import_map_hash() -> str:
    """Return the import map's digest, as a content security policy wants it: the one script that stands in the document itself."""
    found = _IMPORT_MAP.search(dashboard_files()[DOCUMENT].content)
    if found is None:
        raise AssertionError(f"{DOCUMENT} has no import map")
    return f"sha256-{base64.b64encode(hashlib.sha256(found[1]).digest()).decode()}"


def dashboard_router(said: Mapping[str, str | int]) -> APIRouter:
    """Return the routes of the files; what is `said` of the server stands in the document, for `source.js`."""
    router = APIRouter(include_in_schema=False)
    document = _saying(dashboard_files()[DOCUMENT], said)

    @router.get("/")
    async def to_the_dashboard() -> RedirectResponse:
        """Lead somebody who opened the address of the process to the dashboard."""
        return RedirectResponse(f"{BASE}/")

    @router.api_route(BASE + "/{path:path}", methods=["GET", "HEAD"])
    async def dashboard_file(path: str, request: Request) -> Response:
        """Answer with a file, or with the document where a browser opens a page."""
        found = document if path in ("", DOCUMENT) else dashboard_files().get(path)
        if found is None and "text/html" in request.headers.get("accept", ""):
            found = document
        if found is None:
            return error_response(HTTPStatus.NOT_FOUND, f"the dashboard has no file '{path[:200]}'")
        headers = {"ETag": found.etag, "Cache-Control": "no-cache", "Content-Security-Policy": content_security_policy(import_map_hash())}
        if found.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(found.content, media_type=found.media_type, headers=headers)

    return router


def _saying(document: DashboardFile, said: Mapping[str, str | int]) -> DashboardFile:
    marked = "<html " + "".join(f'data-{name}="{value}" ' for name, value in said.items())
    return _file(document.content.replace(b"<html ", marked.encode(), 1), document.media_type)


def _file(content: bytes, media_type: str) -> DashboardFile:
    return DashboardFile(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


def _read(folder: Traversable, prefix: str) -> list[tuple[str, DashboardFile]]:
    found: list[tuple[str, DashboardFile]] = []
    for entry in folder.iterdir():
        name = prefix + entry.name
        if entry.is_dir():
            found += _read(entry, f"{name}/")
        elif (suffix := name[name.rfind(".") :]) in _TYPES:
            found.append((name, _file(entry.read_bytes(), _TYPES[suffix])))
    return found
