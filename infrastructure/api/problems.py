"""The one place where refusals become HTTP statuses, and what an error looks like (RFC 9457)."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from domain.errors import Refused

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 1

STATUS: dict[str, int] = {
    # What the contract of the commands refuses.
    "invalid_command": 400,
    "unknown_table": 404,
    "unknown_account": 404,
    "unknown_shoe": 404,
    "unknown_round": 404,
    "unknown_bet": 404,
    "unknown_correction": 404,
    "already_exists": 409,
    "key_reused": 422,
    "time_out_of_bounds": 422,
    "insufficient_funds": 409,
    "account_frozen": 409,
    "account_closed": 409,
    "balance_not_zero": 409,
    "commission_outstanding": 409,
    "currency_mismatch": 422,
    "limit_below": 422,
    "limit_above": 422,
    "opposite_bets": 409,
    "bet_not_offered": 422,
    "undecidable_bet": 422,
    "betting_closed": 409,
    "betting_open": 409,
    "bet_cancelled": 409,
    "third_card_not_allowed": 422,
    "deal_incomplete": 409,
    "card_not_in_shoe": 422,
    "shoe_open": 409,
    "shoe_exhausted": 409,
    "shoe_closed": 409,
    "burn_too_late": 409,
    "round_open": 409,
    "round_settled": 409,
    "round_void": 409,
    "same_actor": 403,
    "already_decided": 409,
    "day_closed": 409,
    "store_unavailable": 503,
    # What the service itself refuses.
    "idempotency_key_missing": 400,
    "invalid_question": 400,
    "unauthenticated": 401,
    "not_permitted": 403,
    "origin_not_allowed": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "too_large": 413,
    "unsupported_media_type": 415,
    "host_not_allowed": 421,
    "too_many_streams": 503,
    "internal_error": 500,
}
"""The status of every code, those of the commands and those of the service itself."""


class Problem(Exception):  # noqa: N818 - an answer, as a refusal is
    """A request that is not carried out. `details` are further members of the answer."""

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    @property
    def status(self) -> int:
        return STATUS[self.code]


def problem_of(refusal: Refused) -> Problem:
    """The problem that a refusal is to its client."""
    field = {} if refusal.field is None else {"field": refusal.field}
    return Problem(refusal.code, refusal.message, **field)


Tell = Callable[[Request, Problem], Response]
"""Makes the answer that tells a problem."""


def problem_response(_: Request, problem: Problem) -> Response:
    """The answer that tells a problem to a program."""
    document = {
        "type": "about:blank",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.message,
        "code": problem.code,
        **problem.details,
    }
    headers = {}
    if problem.status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    if problem.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(
        msgspec.json.encode(document),
        status_code=problem.status,
        headers=headers,
        media_type=MEDIA_TYPE,
    )
