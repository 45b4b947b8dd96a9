"""The commands that answer questions. None of them adds to the ledger."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date, datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from infrastructure.audit.audit import Scope
from infrastructure.audit.replay import replay
from infrastructure.cli.auditing import audit_ledger
from infrastructure.cli.feeding import feed_positions
from infrastructure.cli.following import follow_rounds
from infrastructure.cli.ledger import NotFoundError, OpenLedger, asking
from infrastructure.cli.output import (
    cards,
    console,
    money,
    print_json,
    print_rows,
)
from infrastructure.cli.replaying import print_replay, step_line
from infrastructure.commands.contract import read_day
from infrastructure.store.mapper import facts
from projections import balances, parking, rounds, runner, shoes, tables
from projections.projection import ProjectionError

FINDINGS = 1
ROUNDS_SHOWN = 100
"""How many rounds people are shown where they do not say."""
JOBS_MAX = 64
_LIMIT_MAX = 2**63 - 1
"""What PostgreSQL can count to."""

_AsJson = Annotated[bool, typer.Option("--json", help="JSON on stdout and nothing else there.")]


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    app.command("tables")(list_tables)
    app.command("shoes")(list_shoes)
    app.command("accounts")(list_accounts)
    app.command("rounds")(list_rounds)
    app.command("events")(list_events)
    app.command("replay")(replay_round)
    app.command("audit")(audit)
    app.command("status")(show_status)


def list_tables(as_json: _AsJson = False) -> None:
    """List the tables, a line each.

    Example: punto tables
    """
    with asking() as ledger:
        lines = tables.tables(ledger.connection)
    _print_lines(
        lines,
        "Tables",
        (
            ("table", lambda line: line.table_id),
            ("currency", lambda line: line.currency),
            ("variant", lambda line: line.variant),
            ("decks", lambda line: line.decks),
            ("shoe", lambda line: line.shoe_id),
            ("rounds", lambda line: line.rounds),
        ),
        as_json=as_json,
    )


def list_shoes(
    table: Annotated[str | None, typer.Option(help="Only the shoes of this table.")] = None,
    as_json: _AsJson = False,
) -> None:
    """List the shoes, a line each.

    Example: punto shoes --table T1
    """
    with asking() as ledger:
        ledger.must_have(table=table)
        lines = shoes.shoes(ledger.connection, table=table)
    _print_lines(
        lines,
        "Shoes",
        (
            ("shoe", lambda line: line.shoe_id),
            ("table", lambda line: line.table_id),
            ("decks", lambda line: line.decks),
            ("source", lambda line: line.source),
            ("state", lambda line: line.state),
            ("rounds", lambda line: line.rounds),
            ("drawn", lambda line: line.cards_drawn),
            ("burned", lambda line: line.cards_burned),
        ),
        as_json=as_json,
    )


def list_accounts(as_json: _AsJson = False) -> None:
    """List the accounts with their balances, a line each.

    Example: punto accounts
    """
    with asking() as ledger:
        lines = balances.accounts(ledger.connection)
    _print_lines(
        lines,
        "Accounts",
        (
            ("account", lambda line: line.account_id),
            ("available", lambda line: money(line.available_minor, line.currency)),
            ("in play", lambda line: money(line.in_play_minor, line.currency)),
            ("due", lambda line: money(line.commission_due_minor, line.currency)),
            ("state", _account_state),
            ("transactions", lambda line: line.version),
        ),
        as_json=as_json,
    )


def _account_state(line: balances.AccountLine) -> str:
    if line.is_closed:
        return "closed"
    return "frozen" if line.is_frozen else "open"


def list_rounds(
    table: Annotated[str | None, typer.Option(help="Only rounds of this table.")] = None,
    shoe: Annotated[str | None, typer.Option(help="Only rounds of this shoe.")] = None,
    opened_from: Annotated[
        str | None, typer.Option("--from", help="Opened at or after this time (ISO 8601).")
    ] = None,
    opened_to: Annotated[
        str | None, typer.Option("--to", help="Opened before this time (ISO 8601).")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The newest so many, printed oldest first. "
            f"[default: {ROUNDS_SHOWN}, with --json all]",
            show_default=False,
        ),
    ] = None,
    after: Annotated[str | None, typer.Option(help="Only rounds opened after this one.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with each round that ends, until stopped.")
    ] = False,
    as_json: _AsJson = False,
) -> None:
    """List the rounds, a line each, oldest first.

    Example: punto rounds --table T1 --limit 20
    """
    from_, to = parse_time(opened_from, "--from"), parse_time(opened_to, "--to")
    with asking() as ledger:
        ledger.must_have(table=table, shoe=shoe, round_id=after)
        # A round that ends meanwhile is in the list, or it is followed.
        with ledger.snapshot():
            folded = dict(runner.positions(ledger.connection))[rounds.Rounds.name]
            lines = rounds.rounds(
                ledger.connection,
                table=table,
                shoe=shoe,
                from_=from_,
                to=to,
                limit=min(limit or (_LIMIT_MAX if as_json else ROUNDS_SHOWN), _LIMIT_MAX),
                after=after,
            )
        _print_rounds(lines, as_json=as_json)
        if follow:
            sys.stdout.flush()
            for line in follow_rounds(ledger, table=table, shoe=shoe, after=folded):
                _print_rounds([line], as_json=as_json)
                sys.stdout.flush()


def _print_rounds(lines: Sequence[rounds.RoundLine], *, as_json: bool) -> None:
    _print_lines(
        lines,
        "Rounds",
        (
            ("round", lambda line: line.round_id),
            ("table", lambda line: line.table_id),
            ("shoe", lambda line: line.shoe_id),
            ("number", lambda line: line.number),
            ("player", lambda line: cards(line.player_cards)),
            ("banker", lambda line: cards(line.banker_cards)),
            ("total", _totals),
            ("outcome", lambda line: line.outcome or line.state),
            ("bets", lambda line: line.bets),
            ("turnover", _turnover),
        ),
        as_json=as_json,
        gives_way=("number", "shoe"),
    )


def _totals(line: rounds.RoundLine) -> str | None:
    return None if line.player_total is None else f"{line.player_total}:{line.banker_total}"


def _turnover(line: rounds.RoundLine) -> str:
    return ", ".join(money(amount, currency) for currency, amount in line.turnover.items())


def parse_day(text: str, option: str) -> date:
    """A gaming day that an option was given."""
    try:
        return read_day(text)
    except ValueError:
        raise typer.BadParameter(
            f"{option} {text!r} is not a date, such as 2026-01-31, of the years 1900 to 9000"
        ) from None


def parse_time(text: str | None, option: str) -> datetime | None:
    """A time that an option was given, with its offset."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{option} {text!r} is not an ISO 8601 time, such as 2026-01-31T20:15:00+01:00"
        ) from None
    if time.tzinfo is None:
        raise typer.BadParameter(
            f"{option} {text!r} needs an offset, as in {time.isoformat()}+00:00"
        )
    return time


def list_events(
    stream: Annotated[
        str,
        typer.Argument(
            metavar="STREAM", help="round:ID, account:ID, shoe:ID, table:ID, correction:ID or site."
        ),
    ],
    as_json: _AsJson = False,
) -> None:
    """List one stream's events, oldest first, a line each.

    Example: punto events round:R1
    """
    with asking(caught_up=False) as ledger:
        recorded = ledger.reader.stream(stream)
    if not recorded:
        raise NotFoundError(f"There is no stream {stream}: write it as in round:ID or account:ID")
    lines = [
        {
            "position": position,
            "stream": event.originator_id,
            "version": event.originator_version,
            "event": event.TOPIC,
            **facts(event),
        }
        for position, event in recorded
    ]
    if as_json:
        for line in lines:
            print_json(line)
        return
    currency = next((line["currency"] for line in lines if "currency" in line), None)
    for line in lines:
        shown = {name: line[name] for name in line if name not in ("position", "stream")}
        by = f" by {line['actor']}"
        console.print(step_line(shown, currency).append(by, style="dim"), soft_wrap=True)


def replay_round(
    round_id: Annotated[str, typer.Argument(metavar="ROUND", help="The round's id.")],
    to_version: Annotated[
        int | None, typer.Option(min=1, help="Stop after this version of the round.")
    ] = None,
    as_json: _AsJson = False,
) -> None:
    """Rebuild a round from its events alone, step by step, with the rule behind each draw.

    Example: punto replay R1
    """
    with asking(caught_up=False) as ledger:
        ledger.must_have(round_id=round_id)
        events = ledger.reader.round(round_id)
    if to_version is not None and to_version > len(events):
        raise NotFoundError(f"Round {round_id} has {len(events)} versions, not {to_version}")
    replayed = replay(events, to_version=to_version)
    if replayed is None:
        by = "" if to_version is None else f" by version {to_version}"
        raise NotFoundError(f"Round {round_id} was not opened{by}: `punto events round:{round_id}`")
    if as_json:
        print_json(replayed)
    else:
        print_replay(replayed)


def audit(
    round_id: Annotated[str | None, typer.Option("--round", help="Only this round.")] = None,
    shoe: Annotated[str | None, typer.Option(help="Only this shoe and its rounds.")] = None,
    table: Annotated[str | None, typer.Option(help="Only this table.")] = None,
    jobs: Annotated[
        int, typer.Option(min=1, max=JOBS_MAX, help="How many processes judge the whole ledger.")
    ] = 1,
    as_json: _AsJson = False,
) -> None:
    """Judge what was recorded against the rules recorded with it; exit code 1 on any finding.

    Example: punto audit --table T1
    """
    if sum(each is not None for each in (round_id, shoe, table)) > 1:
        raise typer.BadParameter("--round, --shoe and --table exclude each other")
    with asking(caught_up=False) as ledger:
        report = audit_ledger(ledger, Scope(round=round_id, shoe=shoe, table=table), jobs=jobs)
    document = report.to_json()
    if as_json:
        print_json(document)
    else:
        _print_report(document)
    raise typer.Exit(FINDINGS if document["findings"] else 0)


def _print_report(document: dict[str, Any]) -> None:
    console.print(
        f"Rounds judged: {document['rounds']:,}, with findings: "
        f"{document['rounds_with_findings']:,}"
    )
    if not document["findings"]:
        return
    print_rows(
        "Findings",
        (("code", lambda pair: pair[0]), ("count", lambda pair: f"{pair[1]:,}")),
        document["findings"].items(),
    )
    print_rows(
        "Examples",
        (
            ("where", _place),
            ("code", lambda example: example["code"]),
            ("detail", lambda example: example["detail"]),
        ),
        document["examples"],
    )


def _place(example: dict[str, Any]) -> str | None:
    """The round of a finding, or the shoe."""
    shoe_id = example.get("shoe_id")
    return example["round_id"] or (None if shoe_id is None else f"shoe {shoe_id}")


def show_status(as_json: _AsJson = False) -> None:
    """Show the database, the head, each projection's and feed's position, and interrupted rounds.

    Example: punto status
    """
    with asking(caught_up=False) as ledger:
        try:
            ledger.catch_up()
        except ProjectionError as error:
            # What is wrong is seen in what follows, and that is why somebody asks.
            print(f"punto: {error}: `punto audit` says what is wrong", file=sys.stderr)
        document = _status(ledger)
    if as_json:
        print_json(document)
        return
    console.print(Text(f"Database {document['database_url']}"), soft_wrap=True)
    recorded_at = document["head_recorded_at"]
    since = "" if recorded_at is None else f", recorded {recorded_at:%Y-%m-%d %H:%M:%S} UTC"
    console.print(f"Head     position {document['head']}{since}")
    print_rows(
        "Projections",
        (
            ("name", lambda line: line["name"]),
            ("position", lambda line: line["position"]),
            ("lag", lambda line: line["lag_events"]),
            ("parked", lambda line: line["parked"]),
        ),
        document["projections"],
    )
    if document["feeds"]:
        print_rows(
            "Feeds",
            (
                ("name", lambda line: line["name"]),
                ("position", lambda line: line["position"]),
                ("lag", lambda line: line["lag_events"]),
                ("", lambda line: line["error"]),
            ),
            document["feeds"],
        )
    if document["interrupted"]:
        console.print("Interrupted rounds: " + ", ".join(document["interrupted"]))


def _status(ledger: OpenLedger) -> dict[str, Any]:
    head = ledger.reader.head()
    parked = parking.counts(ledger.connection)
    return {
        "database_url": ledger.database.masked_url,
        "head": head,
        "head_recorded_at": ledger.reader.head_recorded_at(),
        "projections": [
            {
                "name": name,
                "position": position,
                "lag_events": max(head - position, 0),
                "parked": parked.get(name, 0),
            }
            for name, position in runner.positions(ledger.connection)
        ],
        "feeds": feed_positions(head),
        "interrupted": rounds.interrupted(ledger.connection),
    }


def _print_lines(
    lines: Sequence[Any],
    title: str,
    columns: Sequence[tuple[str, Any]],
    *,
    as_json: bool,
    gives_way: Sequence[str] = (),
) -> None:
    if not as_json:
        print_rows(title, columns, lines, gives_way=gives_way)
        return
    for line in lines:
        print_json(asdict(line))
