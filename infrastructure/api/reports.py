"""The reports over HTTP: commission, its reconciliation, days, the journal and the status."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from domain.event import Entry
from infrastructure.api.asking import (
    LIST_DEFAULT,
    After,
    IdAsked,
    Limit,
    answer,
    final_answer,
    service_of,
)
from infrastructure.api.callers import Permission
from infrastructure.api.problems import Problem
from infrastructure.audit.reconciliation.ledger import ledger_amounts
from infrastructure.audit.reconciliation.reconciliation import reconcile
from infrastructure.commands.contract import GamingDay
from infrastructure.store.reader import LogReader
from projections import parking, postings, rounds, runner
from projections.commission import CommissionBy, commission
from projections.day_report import day_calendar, day_report

_one_at_a_time = threading.Lock()
"""A reconciliation reads the whole ledger; a second one would only slow the first down."""


def reports_router() -> APIRouter:
    """The routes of the reports."""
    router = APIRouter()
    for path, right, endpoint in (
        ("/v1/commission", "commission", show_commission),
        ("/v1/reconciliation", "reconciliation", show_reconciliation),
        ("/v1/days", "days", show_days),
        ("/v1/days/{day}", "days", show_day),
        ("/v1/journal", "journal", list_journal),
        ("/v1/trial-balance", "journal", show_trial_balance),
        ("/v1/status", "status", show_status),
    ):
        router.add_api_route(
            path,
            endpoint,
            methods=["GET"],
            operation_id=endpoint.__name__,
            dependencies=[Depends(Permission(right))],
        )
    return router


def show_commission(request: Request, by: CommissionBy = CommissionBy.TABLE) -> Response:
    """The commission charged and marked, less what corrections took back."""
    with service_of(request).asking() as connection:
        lines = commission(connection, by)
    return answer({"by": by.value, "commission": [asdict(line) for line in lines]})


def show_reconciliation(
    request: Request,
    day: Annotated[GamingDay | None, Query()] = None,
) -> Response:
    """The commission recomputed from the cards, and compared with every record of it.

    It reads the whole ledger, so one is made at a time.
    """
    with _one_at_a_time, service_of(request).asking() as connection:
        reader = LogReader(connection)
        reconciled = reconcile(
            _pages(reader, postings.position(connection)),
            lambda after, position: ledger_amounts(connection, after, position),
            reader.entries,
            day=day,
        )
    return answer(reconciled.to_json())


def _pages(reader: LogReader, until: int) -> Iterator[list[Entry]]:
    after = 0
    while after < until and (page := reader.page(after)):
        yield [entry for entry in page if entry.position <= until]
        after = page[-1].position


def show_days(request: Request) -> Response:
    """The gaming day of now, and up to which day the books are closed."""
    with service_of(request).asking() as connection:
        days = day_calendar(connection)
    return answer({"today": days.day_of(datetime.now(UTC)), "closed_to": days.closed})


def show_day(
    request: Request,
    day: Annotated[GamingDay, Path()],
    table: IdAsked = None,
) -> Response:
    """A gaming day: turnover, win, hold and commission. A closed one has an ETag."""
    with service_of(request).asking() as connection:
        document = day_report(connection, day, table=table).to_json()
    if not document["closed"]:
        return answer(document)
    tag = hashlib.sha256(msgspec.json.encode(document)).hexdigest()[:32]
    return final_answer(request, document, tag=tag)


def list_journal(
    request: Request,
    account: IdAsked = None,
    round_id: Annotated[
        str | None, Query(alias="round", pattern=r"^[A-Za-z0-9._:-]{1,64}$")
    ] = None,
    day: Annotated[GamingDay | None, Query()] = None,
    after: After = 0,
    limit: Limit = LIST_DEFAULT,
) -> Response:
    """The journal: entries after a position, each of balanced postings; a debit is positive.

    `account` is a player's account.
    """
    with service_of(request).asking() as connection:
        if account is not None and not postings.has_account(connection, f"player:{account}"):
            raise Problem("unknown_account", f"there is no account {account}", field="account")
        if round_id is not None and not LogReader(connection).entries(f"round:{round_id}"):
            raise Problem("unknown_round", f"there is no round {round_id}", field="round")
        wanted = postings.Wanted(
            until=postings.position(connection), account_id=account, round_id=round_id, day=day
        )
        lines, next_after = _some(postings.next_postings(connection, wanted, after, limit), limit)
    return answer({"postings": lines, "next_after": next_after})


def _some(found: list[postings.Posting], limit: int) -> tuple[list[dict[str, Any]], int | None]:
    """Whole entries, at least one, and the position of the last where there may be more."""
    if len(found) <= limit:
        return [asdict(posting) for posting in found], None
    cut_off = found[-1].position
    whole = [posting for posting in found if posting.position < cut_off] or found
    return [asdict(posting) for posting in whole], whole[-1].position


def show_trial_balance(request: Request) -> Response:
    """Every account of the ledger, and that debits and credits are equal."""
    with service_of(request).asking() as connection:
        lines = postings.trial_balance(connection)
    sums: dict[str, dict[str, int]] = {}
    for line in lines:
        both = sums.setdefault(line.currency, {"debits_minor": 0, "credits_minor": 0})
        both["debits_minor" if line.balance_minor > 0 else "credits_minor"] += abs(
            line.balance_minor
        )
    differences = [asdict(line) for line in lines if line.balance_minor != line.kept_minor]
    return answer(
        {
            "ok": not differences
            and all(both["debits_minor"] == both["credits_minor"] for both in sums.values()),
            "currencies": sums,
            "accounts": [
                {
                    "account": line.account,
                    "currency": line.currency,
                    "balance_minor": line.balance_minor,
                }
                for line in lines
            ],
            "differences": differences,
        }
    )


def show_status(request: Request) -> Response:
    """The head, each projection's position and lag, and interrupted rounds."""
    with service_of(request).reading() as connection:
        reader = LogReader(connection)
        head, recorded_at = reader.head(), reader.head_recorded_at()
        parked = parking.counts(connection)
        positions = runner.positions(connection)
        interrupted = rounds.interrupted(connection)
    projections = [
        {
            "name": name,
            "position": position,
            "lag_events": max(head - position, 0),
            "parked": parked.get(name, 0),
        }
        for name, position in positions
    ]
    return answer(
        {
            "head": head,
            "head_recorded_at": recorded_at,
            "projections": projections,
            "interrupted": interrupted,
        }
    )
