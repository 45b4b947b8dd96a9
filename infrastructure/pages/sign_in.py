"""Signing in: a browser keeps a key in a cookie that no script sees and no other site sends.

With the cookie the service answers questions, and takes no commands.
"""

from http import HTTPStatus
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from infrastructure.api.callers import COOKIE, KEY_CHARACTERS_MAX, Callers
from infrastructure.api.problems import Problem
from infrastructure.pages.formats import formats_for
from infrastructure.pages.rendering import render
from infrastructure.pages.route import SIGN_IN, PageRoute

BODY_BYTES_MAX = 2_000
COOKIE_SECONDS = 12 * 60 * 60

router = APIRouter(route_class=PageRoute, include_in_schema=False)


def is_signed_in(request: Request) -> bool:
    """Whether the browser sent a key."""
    return COOKIE in request.cookies


@router.get(SIGN_IN)
def sign_in_page(request: Request) -> Response:
    """Asks for a key."""
    return _page(request, failed=False)


async def _sent_key(request: Request) -> str:
    """The key in the form that was sent; empty where there is none."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            return ""
    fields = parse_qs(body.decode("ascii", "replace"), max_num_fields=4)
    return fields.get("key", [""])[0].strip()[: KEY_CHARACTERS_MAX + 1]


@router.post(SIGN_IN)
async def sign_in(request: Request, key: Annotated[str, Depends(_sent_key)]) -> Response:
    """Keeps a key that is one in the browser, for half a day."""
    callers: Callers = request.app.state.service.callers
    try:
        if not key:
            raise Problem("unauthenticated", "no key was sent")
        await callers.of(key)
    except Problem as problem:
        if problem.code != "unauthenticated":
            raise
        return _page(request, failed=True)
    response = RedirectResponse("/", HTTPStatus.SEE_OTHER)
    response.set_cookie(
        COOKIE,
        key,
        max_age=COOKIE_SECONDS,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


@router.post("/sign-out")
def sign_out() -> Response:
    """Forgets the key."""
    response = RedirectResponse(SIGN_IN, HTTPStatus.SEE_OTHER)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


def _page(request: Request, *, failed: bool) -> Response:
    text = render(
        "sign_in.html",
        f=formats_for(request.headers.get("accept-language")),
        caller=None,
        here=SIGN_IN,
        failed=failed,
    )
    return HTMLResponse(text, HTTPStatus.FORBIDDEN if failed else HTTPStatus.OK)
