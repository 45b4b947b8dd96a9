"""Who is calling: the owner and role of the key that a request carries."""

import time
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from infrastructure.api.keys import ApiKey, are_there_keys, find_key
from infrastructure.api.observing import observed
from infrastructure.api.problems import Problem
from infrastructure.api.roles import RIGHTS, Role

KEY_SECONDS_MAX = 2.0
"""For so long a key that was revoked may still be taken."""
KEYS_IN_MEMORY = 1_000
KEY_CHARACTERS_MAX = 200
COOKIE = "punto_key"
"""In it a browser sends the key, for questions alone."""
LOCAL_OWNER = "local"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and what its key is for; a table's key has tables, a player's an account."""

    owner: str
    role: Role
    tables: frozenset[str] = frozenset()
    account_id: str | None = None

    def may(self, right: str) -> bool:
        """Whether its role allows a command or a question, as far as the role can tell."""
        return right in RIGHTS[self.role]

    def sees_table(self, table_id: str) -> bool:
        """Whether a table is among those that the key is for."""
        return self.role is not Role.TABLE or table_id in self.tables

    def sees_account(self, account_id: str) -> bool:
        """Whether an account is one that the key is for."""
        return self.role is not Role.PLAYER or account_id == self.account_id

    def must_see_table(self, table_id: str) -> None:
        """Refuses a question about another table than the key's."""
        if not self.sees_table(table_id):
            raise Problem("not_permitted", f"this key is not for table {table_id}")

    def must_see_account(self, account_id: str) -> None:
        """Refuses a question about another account than the key's."""
        if not self.sees_account(account_id):
            raise Problem("not_permitted", f"this key is not for account {account_id}")


LOCAL = Caller(LOCAL_OWNER, Role.OPERATOR)


class Callers:
    """Knows callers by their keys. Without any key, and on loopback alone, all are the operator."""

    def __init__(self, reading: Any, *, is_open_without_keys: bool) -> None:
        self._reading = reading
        self._is_open_without_keys = is_open_without_keys
        self._known: dict[str, tuple[float, Caller | None]] = {}

    async def of(self, key: str | None) -> Caller:
        """The caller of a key, or of none; raises Problem where that is nobody."""
        if key is not None and len(key) > KEY_CHARACTERS_MAX:
            raise Problem("unauthenticated", "this is not a key of this service")
        caller = self._remembered(key or "")
        if caller is None:
            caller = await run_in_threadpool(self._look_up, key)
            if len(self._known) >= KEYS_IN_MEMORY:
                self._known.clear()
            if caller is not None:
                self._known[key or ""] = (time.monotonic() + KEY_SECONDS_MAX, caller)
        if caller is None:
            message = "a key is needed: Authorization: Bearer …" if key is None else "unknown key"
            raise Problem("unauthenticated", message)
        return caller

    def _remembered(self, key: str) -> Caller | None:
        until, caller = self._known.get(key, (0.0, None))
        return caller if time.monotonic() < until else None

    def _look_up(self, key: str | None) -> Caller | None:
        with self._reading() as connection:
            if key is not None:
                found = find_key(connection, key)
                return None if found is None else _caller_of(found)
            if self._is_open_without_keys and not are_there_keys(connection):
                return LOCAL
            return None


def _caller_of(key: ApiKey) -> Caller:
    return Caller(key.owner, Role(key.role), frozenset(key.tables), key.account)


async def who_is_calling(request: Request) -> Caller:
    """The caller of a request; a route takes it as a dependency."""
    callers: Callers = request.app.state.service.callers
    caller = await callers.of(_key_of(request))
    observed(request).owner = caller.owner
    return caller


async def is_still_calling(request: Request, caller: Caller) -> bool:
    """Whether the key of a request that goes on is still good for the same."""
    try:
        return await who_is_calling(request) == caller
    except Problem as problem:
        # While the store is away nobody can tell, and nothing is to be had.
        return problem.code == "store_unavailable"


def _key_of(request: Request) -> str | None:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme:
        if scheme.lower() != "bearer" or not key.strip():
            raise Problem("unauthenticated", "write it as Authorization: Bearer KEY")
        return key.strip()
    # A page of another site can make a browser send a cookie, and shall change nothing by it.
    return request.cookies.get(COOKIE) if request.method in ("GET", "HEAD") else None


Calling = Annotated[Caller, Depends(who_is_calling)]


async def must_be_known(request: Request) -> None:
    """Refuses a parameter that the question does not have: what was meant by it is not asked."""
    route: APIRoute = request.scope["route"]
    known = {parameter.alias for parameter in route.dependant.query_params}
    for name in request.query_params:
        if name not in known:
            others = f"it has {', '.join(sorted(known))}" if known else "it has none"
            raise Problem(
                "invalid_question",
                f"{name[:64]} is not a parameter of this question: {others}",
                field=name[:64],
            )


class Permission:
    """A dependency that lets callers pass who have a right. Every route of the service has one."""

    def __init__(self, right: str) -> None:
        assert any(right in rights for rights in RIGHTS.values()), right
        self.right = right

    async def __call__(self, caller: Calling) -> Caller:
        if not caller.may(self.right):
            raise Problem("not_permitted", f"the role {caller.role} has no right to {self.right}")
        return caller
