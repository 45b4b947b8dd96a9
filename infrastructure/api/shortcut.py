"""The short way of writes to their endpoints.

The framework's own takes longer, mostly for what writes do not have, than all else in a request.
"""

from collections import defaultdict
from collections.abc import Sequence

from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from domain.errors import Refused
from infrastructure.api.problems import Problem, Tell, problem_of


class Shortcut:
    """Answers what is posted to some routes, whose paths end in a word, and lets all else go on."""

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute], tell: Tell) -> None:
        self._app = app
        self._tell = tell
        self._by_last_word: dict[str, list[Route]] = defaultdict(list)
        for route in routes:
            assert isinstance(route, Route)
            self._by_last_word[_last_word(route.path)].append(route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            for route in self._by_last_word.get(_last_word(scope["path"]), ()):
                if found := route.path_regex.match(scope["path"]):
                    scope["path_params"] = found.groupdict()
                    scope["endpoint"] = route.endpoint
                    await self._answer(route, scope, receive, send)
                    return
        await self._app(scope, receive, send)

    async def _answer(self, route: Route, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await route.endpoint(request)
        except Problem as problem:
            response = self._tell(request, problem)
        except Refused as refusal:
            response = self._tell(request, problem_of(refusal))
        await response(scope, receive, send)


def _last_word(path: str) -> str:
    return path.rpartition("/")[2]
