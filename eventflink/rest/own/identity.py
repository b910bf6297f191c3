"""Logging in and out with a browser, and who one is."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from eventflink.rest.access.authentication import Authentication, cookie_name
from eventflink.rest.access.identity import AccessRole, Identity
from eventflink.rest.access.roles import ROLES, IdentityOfRequest
from eventflink.rest.own.moments import OwnShape
from eventflink.rest.requests import BodyRoute

_MAX_TOKEN_LENGTH: Final = 4096

router = APIRouter(route_class=BodyRoute)


class Login(BaseModel):
    """With what somebody logs in."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    token: str = Field(min_length=1, max_length=_MAX_TOKEN_LENGTH)


class IdentityInfo(OwnShape):
    """Who asks."""

    name: str
    role: AccessRole
    session: bool
    """Whether a cookie says so, and `/logout` ends that."""
    needs_tokens: bool
    """False: this process asks nobody who they are."""
    roles: list[AccessRole]
    """Its role, and those that it has with it."""
    needed: dict[str, AccessRole]
    """Of each operation that not every viewer may do, by method and path, the role that may."""


class SessionEnded(OwnShape):
    """The empty answer to the end of a session."""


async def _authentication_of(request: Request) -> Authentication:
    authentication: Authentication = request.app.state.authentication
    return authentication


AuthenticationOfRequest = Annotated[Authentication, Depends(_authentication_of)]


@router.get("/identity")
async def identity(request: Request, who: IdentityOfRequest, authentication: AuthenticationOfRequest) -> IdentityInfo:
    """Return who asks, and what they may do."""
    return _info(who, authentication, session=request.scope["state"]["by_cookie"])


@router.post("/login")
async def log_in(body: Login, request: Request, response: Response, authentication: AuthenticationOfRequest) -> IdentityInfo:
    """Begin a session: the answer sets the cookie that a browser sends from then on, until it is closed."""
    who, session_id = await authentication.log_in(body.token, request.scope)
    response.set_cookie(
        cookie_name(request.scope), session_id, path="/", httponly=True, samesite="strict", secure=request.scope["scheme"] == "https"
    )
    return _info(who, authentication, session=True)


@router.post("/logout")
async def log_out(request: Request, response: Response, authentication: AuthenticationOfRequest) -> SessionEnded:
    """End the session, and have the browser forget it."""
    authentication.log_out(request.scope)
    response.delete_cookie(
        cookie_name(request.scope), path="/", httponly=True, samesite="strict", secure=request.scope["scheme"] == "https"
    )
    response.headers["Clear-Site-Data"] = '"cache"'
    return SessionEnded()


def _info(who: Identity, authentication: Authentication, *, session: bool) -> IdentityInfo:
    return IdentityInfo(
        name=who.name,
        role=who.role,
        session=session,
        needs_tokens=authentication.needs_tokens,
        roles=[role for role in AccessRole if who.role.covers(role)],
        needed={route: role for route, role in ROLES.items() if role is not AccessRole.VIEWER},
    )
