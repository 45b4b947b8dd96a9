"""The commands of the books: the journal, the trial balance, statements and balances."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer

from domain.books import IN_PLAY, WALLET
from infrastructure.books.beancount import beancount
from infrastructure.books.entries import entries, subject
from infrastructure.books.hledger import hledger
from infrastructure.books.statement import Movement, Statement, statement
from infrastructure.books.tabular import comma_separated
from infrastructure.cli.asking import FINDINGS, parse_day, parse_time
from infrastructure.cli.ledger import NotFoundError, OpenLedger, asking
from infrastructure.cli.output import console, moment, money, print_json, print_rows
from projections import balances, postings
from projections.balances import Balance
from projections.postings import LedgerBalance, Posting, Wanted

_AsJson = Annotated[bool, typer.Option("--json", help="JSON on stdout and nothing else there.")]
_Account = Annotated[str, typer.Argument(metavar="ACCOUNT", help="The account's id.")]


class Format(StrEnum):
    """How the journal is written."""

    TEXT = "text"
    JSON = "json"
    HLEDGER = "hledger"
    BEANCOUNT = "beancount"
    CSV = "csv"


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    app.command("balance")(show_balance)
    app.command("statement")(show_statement)
    app.command("journal")(show_journal)
    app.command("trial-balance")(show_trial_balance)


def show_balance(
    account_id: _Account,
    at: Annotated[
        str | None,
        typer.Option("--at", help="What was true at this time (ISO 8601), as known today."),
    ] = None,
    position: Annotated[
        int | None, typer.Option(min=0, help="What the ledger knew at this position.")
    ] = None,
    as_json: _AsJson = False,
) -> None:
    """Show what an account has available, in play, due and owed: now, or then.

    Example: punto balance P1 --position 1200
    """
    if at is not None and position is not None:
        raise typer.BadParameter("--at and --position exclude each other")
    time = parse_time(at, "--at")
    with asking() as ledger:
        if balances.balance(ledger.connection, account_id) is None:
            raise NotFoundError(f"There is no account {account_id}: `punto accounts` lists them")
        found, when = _balance(ledger, account_id, time, position)
    if found is None:
        raise NotFoundError(f"Account {account_id} was not open{when}")
    if as_json:
        print_json(asdict(found))
        return
    print_rows(
        f"Account {account_id}{when or f' at position {found.position}'}",
        (
            ("available", lambda line: money(line.available_minor, line.currency)),
            ("in play", lambda line: money(line.in_play_minor, line.currency)),
            ("due", lambda line: money(line.commission_due_minor, line.currency)),
            ("owed", lambda line: money(line.owed_minor, line.currency)),
        ),
        [found],
    )


def _balance(
    ledger: OpenLedger, account_id: str, at: datetime | None, position: int | None
) -> tuple[Balance | None, str]:
    """The balance that is asked for, and what was asked, in words."""
    if position is not None:
        head = postings.position(ledger.connection)
        if position > head:
            raise NotFoundError(f"The ledger has come to position {head}, not to {position}")
        found = postings.balance_as_of(ledger.connection, account_id, position)
        return found, f" at position {position}"
    if at is not None:
        return postings.balance_at(ledger.connection, account_id, at), f" at {at.isoformat()}"
    return balances.balance(ledger.connection, account_id), ""


def show_statement(
    account_id: _Account,
    period_from: Annotated[
        str | None, typer.Option("--from", help="Transactions at or after this time (ISO 8601).")
    ] = None,
    period_to: Annotated[
        str | None, typer.Option("--to", help="Transactions before this time (ISO 8601).")
    ] = None,
    as_json: _AsJson = False,
) -> None:
    """Show an account's transactions, each with the balance before and after it.

    Example: punto statement P1 --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z
    """
    from_, to = parse_time(period_from, "--from"), parse_time(period_to, "--to")
    if from_ is not None and to is not None and from_ > to:
        raise typer.BadParameter(f"--from {period_from!r} lies after --to {period_to!r}")
    with asking(caught_up=False) as ledger:
        events = ledger.reader.stream(f"account:{account_id}")
    if not events:
        raise NotFoundError(f"There is no account {account_id}: `punto accounts` lists them")
    found = statement(events, from_=from_, to=to)
    if as_json:
        print_json(found.to_json())
    else:
        _print_statement(found)


def _print_statement(found: Statement) -> None:
    def amount(minor: int) -> str:
        return money(minor, found.currency)

    def when(line: Movement) -> str:
        return moment(line.at.isoformat())

    def what(line: Movement) -> str:
        about = [
            f"{name.removesuffix('_id')} {line.details[name]}"
            for name in ("round_id", "bet_id", "correction_id")
            if name in line.details
        ]
        return ", ".join([line.event.removeprefix("account."), *about])

    print_rows(
        f"Account {found.account_id} at position {found.position}:"
        f" opening {amount(found.opening.available_minor)},"
        f" closing {amount(found.closing.available_minor)}",
        (
            ("number", lambda line: line.number),
            ("at", when),
            ("what", what),
            ("amount", lambda line: amount(line.amount_minor) if line.amount_minor else None),
            ("balance", lambda line: amount(line.after_minor)),
            ("in play", lambda line: amount(line.after.in_play_minor)),
            ("due", lambda line: amount(line.after.commission_due_minor)),
            ("owed", lambda line: amount(line.after.owed_minor)),
        ),
        found.movements,
        gives_way=("owed", "due", "in play"),
    )


def show_journal(
    account: Annotated[
        str | None,
        typer.Option(
            help="Only entries of this account: a player's, or one of the ledger such as cage."
        ),
    ] = None,
    round_id: Annotated[str | None, typer.Option("--round", help="Only this round's.")] = None,
    day: Annotated[
        str | None, typer.Option(help="Only those in the books of this gaming day (2026-01-31).")
    ] = None,
    how: Annotated[Format, typer.Option("--format", help="How to write it.")] = Format.TEXT,
    as_json: _AsJson = False,
) -> None:
    """Print the journal: each event that moved money, as balanced postings.

    A debit is positive, a credit negative.

    Example: punto journal --day 2026-01-31 --format hledger
    """
    gaming_day = None if day is None else parse_day(day, "--day")
    if as_json:
        if how not in (Format.TEXT, Format.JSON):
            raise typer.BadParameter(f"--json and --format {how.value} exclude each other")
        how = Format.JSON
    with asking() as ledger:
        ledger.must_have(round_id=round_id)
        wanted = Wanted(
            until=postings.position(ledger.connection),
            round_id=round_id,
            day=gaming_day,
            **_of_account(ledger, account),
        )
        for line in _written(ledger, wanted, how):
            sys.stdout.write(f"{line}\n")


def _written(ledger: OpenLedger, wanted: Wanted, how: Format) -> Iterator[str]:
    rows = postings.postings(ledger.connection, wanted)
    match how:
        case Format.TEXT:
            return _as_text(rows)
        case Format.JSON:
            return _as_json(rows)
        case Format.CSV:
            return comma_separated(rows)
        case Format.HLEDGER:
            totals = postings.totals(ledger.connection, wanted)
            return hledger(rows, totals, wanted.until)
        case Format.BEANCOUNT:
            totals = postings.totals(ledger.connection, wanted)
            return beancount(rows, totals, wanted.until)


def _of_account(ledger: OpenLedger, account: str | None) -> dict[str, Any]:
    """The ledger's account of this name, or else what the player's account did."""
    if account is None or postings.has_account(ledger.connection, account):
        return {"account": account}
    if postings.has_account(ledger.connection, WALLET + account):
        return {"account_id": account}
    raise NotFoundError(f"There is no account {account}: `punto trial-balance` lists them")


def _as_text(rows: Iterable[Posting]) -> Iterator[str]:
    for entry in entries(rows):
        first = entry[0]
        late = "" if first.own_day == first.day else f", of {first.own_day}"
        at = moment(first.at.isoformat())
        yield f"{first.position}  {first.day}{late}  {at}  {subject(first)}"
        for each in entry:
            amounts = (
                money(minor, each.currency) for minor in (each.amount_minor, each.balance_minor)
            )
            yield f"    {each.account:<36} " + " ".join(f"{amount:>22}" for amount in amounts)


def _as_json(rows: Iterable[Posting]) -> Iterator[str]:
    """One document, whatever its length, without ever holding all of it."""
    yield '{"postings":['
    before = ""
    for row in rows:
        yield before + msgspec.json.encode(row).decode()
        before = ","
    yield "]}"


def show_trial_balance(as_json: _AsJson = False) -> None:
    """Show every account of the ledger, and that debits and credits are equal.

    Exit code 1 where they are not, or where a posting was altered.

    Example: punto trial-balance
    """
    with asking() as ledger:
        lines = postings.trial_balance(ledger.connection)
    sums: dict[str, dict[str, int]] = {}
    for line in lines:
        side = "debits_minor" if line.balance_minor > 0 else "credits_minor"
        both = sums.setdefault(line.currency, {"debits_minor": 0, "credits_minor": 0})
        both[side] += abs(line.balance_minor)
    altered = [line for line in lines if line.balance_minor != line.kept_minor]
    is_ok = not altered and all(
        both["debits_minor"] == both["credits_minor"] for both in sums.values()
    )
    if as_json:
        accounts = [
            {
                "account": line.account,
                "currency": line.currency,
                "balance_minor": line.balance_minor,
            }
            for line in lines
        ]
        differences = [asdict(line) for line in altered]
        print_json(
            {"ok": is_ok, "currencies": sums, "accounts": accounts, "differences": differences}
        )
    else:
        _print_trial_balance(lines, sums, altered)
    raise typer.Exit(0 if is_ok else FINDINGS)


def _print_trial_balance(
    lines: Sequence[LedgerBalance],
    sums: dict[str, dict[str, int]],
    altered: Sequence[LedgerBalance],
) -> None:
    shown = [line for line in lines if line.balance_minor or not line.account.startswith(IN_PLAY)]
    print_rows(
        "Trial balance",
        (
            ("account", lambda line: line.account),
            ("debit", lambda line: _side(line, 1)),
            ("credit", lambda line: _side(line, -1)),
        ),
        shown,
    )
    if len(shown) < len(lines):
        console.print(f"Rounds with nothing in play: {len(lines) - len(shown):,}")
    for currency, both in sums.items():
        debit, credit = (money(both[f"{side}_minor"], currency) for side in ("debits", "credits"))
        console.print(f"Debits {debit}, credits {credit}")
    for line in altered:
        posted, kept = (
            money(line.balance_minor, line.currency),
            money(line.kept_minor, line.currency),
        )
        console.print(f"{line.account}: its postings come to {posted}, and {kept} were kept of it")


def _side(line: LedgerBalance, sign: int) -> str | None:
    amount_minor = line.balance_minor * sign
    return money(amount_minor, line.currency) if amount_minor > 0 else None
