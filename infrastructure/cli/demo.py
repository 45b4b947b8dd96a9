"""`punto demo`: the main job in one go, on the embedded database."""

import shlex

from infrastructure.audit.audit import Scope
from infrastructure.audit.replay import replay
from infrastructure.cli.auditing import audit_ledger
from infrastructure.cli.ledger import OpenLedger, casino_on, say
from infrastructure.cli.output import Progress, cards, console, money, print_rows
from infrastructure.cli.replaying import print_replay
from infrastructure.cli.reporting import reconcile_ledger
from infrastructure.settings import load_settings
from infrastructure.simulation import simulate
from infrastructure.store.connection import open_database
from projections import balances, rounds

SEED = 1
SEATS = 5
NEWEST_ROUNDS = 8


def demo() -> None:
    """Play a shoe at each of two tables, show and reconcile the money, replay a round, audit all.

    It always works on the embedded database and never touches another one.

    Example: punto demo
    """
    settings = load_settings().model_copy(update={"database_url": None})
    with (
        open_database(settings, progress=say) as database,
        database.connect() as connection,
    ):
        database.check_writable()
        ledger = OpenLedger(database, connection)
        with casino_on(database) as casino, Progress("Rounds played") as progress:
            report = simulate(casino, tables=2, shoes=1, seats=SEATS, seed=SEED, progress=progress)
        console.print(f"[bold]Played[/bold] {report}\n")
        ledger.catch_up()
        shown = _show_rounds(ledger)
        _show_balances(ledger)
        _show_commission(ledger)
        _show_replay(ledger, shown)
        verdict = audit_ledger(ledger, Scope()).to_json()
        console.print(
            f"\n[bold]Audited[/bold] {verdict['rounds']:,} rounds, "
            f"{verdict['rounds_with_findings']:,} with findings\n"
        )
    _say_what_next(shown)


def _show_rounds(ledger: OpenLedger) -> str:
    newest = rounds.rounds(ledger.connection, table=f"sim{SEED}-T2", limit=NEWEST_ROUNDS)
    print_rows(
        "The newest rounds",
        (
            ("round", lambda line: line.round_id),
            ("player", lambda line: cards(line.player_cards)),
            ("banker", lambda line: cards(line.banker_cards)),
            ("total", lambda line: f"{line.player_total}:{line.banker_total}"),
            ("outcome", lambda line: line.outcome),
            ("bets", lambda line: line.bets),
            ("turnover", lambda line: money(sum(line.turnover.values()), *line.turnover)),
        ),
        newest,
    )
    longest = max(newest, key=lambda line: len(line.player_cards) + len(line.banker_cards))
    return longest.round_id


def _show_balances(ledger: OpenLedger) -> None:
    print_rows(
        "The balances",
        (
            ("account", lambda line: line.account_id),
            ("available", lambda line: money(line.available_minor, line.currency)),
            ("in play", lambda line: money(line.in_play_minor, line.currency)),
            ("transactions", lambda line: line.version),
        ),
        (
            line
            for line in balances.accounts(ledger.connection)
            if line.account_id.startswith(f"sim{SEED}-")
        ),
    )


def _show_commission(ledger: OpenLedger) -> None:
    reconciled = reconcile_ledger(ledger)
    found = f"{len(reconciled.differences):,} differences" if not reconciled.ok else "no difference"
    for currency, sums in reconciled.currencies.items():
        amounts = ", ".join(
            f"{name} {money(sums[f'{name}_minor'] or 0, currency)}"
            for name in ("recomputed", "events", "ledger")
        )
        console.print(f"[bold]Commission[/bold] {amounts}: {found}\n")


def _show_replay(ledger: OpenLedger, round_id: str) -> None:
    replayed = replay(ledger.reader.round(round_id))
    assert replayed is not None
    print_replay(replayed)


def _say_what_next(round_id: str) -> None:
    console.print("[bold]What to try next[/bold]")
    for line in (
        "punto tables",
        f"punto replay {shlex.quote(round_id)} --json",
        "punto audit",
        "punto reconcile commission",
        "punto simulate --tables 4 --shoes 10 --seats 7 --seed 2",
        "punto status",
        "punto --help",
    ):
        console.print(f"  {line}", soft_wrap=True)
