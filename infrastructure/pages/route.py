"""How a page is answered: what it may load, and what a refusal looks like in a browser."""

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.responses import HTMLResponse, RedirectResponse, Response

from infrastructure.api.doors import is_of_api
from infrastructure.api.problems import Problem, problem_response
from infrastructure.pages.formats import formats_for
from infrastructure.pages.ledger import NotThere, NotUnderstood
from infrastructure.pages.rendering import render

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self';"
        " img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Nothing is loaded from elsewhere, nothing stands inline, and no other site frames a page."""
NEVER_KEPT = {"Cache-Control": "no-store", "Vary": "Accept-Language, Cookie"}

SIGN_IN = "/sign-in"

_Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class PageRoute(APIRoute):
    """A route whose refusals are pages too; who has not said who he is, is asked."""

    def get_route_handler(self) -> _Handler:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                response = await handle(request)
            except Problem as problem:
                if problem.code == "unauthenticated":
                    response = RedirectResponse(SIGN_IN, HTTPStatus.SEE_OTHER)
                else:
                    response = _refusal(request, problem.status, problem.message)
            except NotThere as error:
                response = _refusal(request, HTTPStatus.NOT_FOUND, str(error))
            except NotUnderstood as error:
                response = _refusal(request, HTTPStatus.BAD_REQUEST, str(error))
            except RequestValidationError as error:
                field = error.errors()[0]["loc"][-1]
                response = _refusal(request, HTTPStatus.BAD_REQUEST, f"{field} cannot be read.")
            for name, value in {**NEVER_KEPT, **HEADERS}.items():
                response.headers.setdefault(name, value)
            return response

        return answer


def tell(request: Request, problem: Problem) -> Response:
    """Tells a problem outside of these routes: to a browser as a page, else as the API does."""
    is_for_page = "text/html" in request.headers.get("accept", "")
    if is_of_api(request.scope) or not is_for_page:
        return problem_response(request, problem)
    return _refusal(request, problem.status, problem.message)


def _refusal(request: Request, status: int, message: str) -> Response:
    text = render(
        "refusal.html",
        f=formats_for(request.headers.get("accept-language")),
        caller=None,
        title=HTTPStatus(status).phrase,
        message=message,
        here="",
    )
    return HTMLResponse(text, status, headers={**NEVER_KEPT, **HEADERS})
