"""What keeps pages of other sites, and what is shown, from doing harm in a browser: checks of who sent a request, and headers of answers.

A browser sends cookies, and opens connections to this machine, for whatever page asks it to. It says of each request which page that was
(`Sec-Fetch-Site`, `Origin`, `Referer`); other clients say nothing of the kind, and are held to nothing but their token.
"""

from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from eventflink.rest.errors import RestError

_OURS: Final = "same-origin"
_OF_OTHER_PAGES: Final = frozenset({"cross-site", "same-site"})
_EMBEDDED: Final = frozenset({"object", "embed", "iframe", "frame"})
_REFUSED: Final = "the request comes from a page of another site, or from none, which may not {} this cluster"
_NO_PROOF: Final = "a session may change something only for a page of this process: the request has neither Origin nor Sec-Fetch-Site"


def refuse_foreign_order(scope: Scope) -> None:
    """Refuse what changes something for another page than one of ours, such as for a link or an image of it.

    Who is known by a cookie has to prove that it is one of ours: the browser sends the cookie in any case.

    Raises:
        RestError: 403.

    """
    headers = Headers(scope=scope)
    host, site = headers.get("host", "").lower(), headers.get("sec-fetch-site")
    pages = [page for page in (headers.get("origin"), headers.get("referer")) if page]
    if (site is not None and site != _OURS) or any(_place(page) != host for page in pages):
        raise RestError(HTTPStatus.FORBIDDEN, _REFUSED.format("command"))
    if scope["state"]["by_cookie"] and site is None and "origin" not in headers:
        raise RestError(HTTPStatus.FORBIDDEN, _NO_PROOF)


def refuse_foreign_read(scope: Scope) -> None:
    """Refuse what another page reads or embeds; a link that somebody follows may lead here.

    Raises:
        RestError: 403.

    """
    headers = Headers(scope=scope)
    follows_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") not in _EMBEDDED
    if headers.get("sec-fetch-site") in _OF_OTHER_PAGES and not follows_link:
        raise RestError(HTTPStatus.FORBIDDEN, _REFUSED.format("read from"))


def _place(page: str) -> str:
    try:
        return urlsplit(page).netloc.lower()
    except ValueError:
        return ""


def content_security_policy(*inline_scripts: str) -> str:
    """Return the policy of a page whose only inline scripts have these hashes, as `sha256-…` in base 64."""
    scripts = " ".join(["'self'", *(f"'{digest}'" for digest in inline_scripts)])
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
        "manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": content_security_policy(),
    "cross-origin-opener-policy": _OURS,
    "cross-origin-resource-policy": _OURS,
    "referrer-policy": _OURS,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Of every answer that does not say otherwise itself."""
