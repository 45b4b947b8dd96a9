"""The pages of the tables: what lies on each now, and the latest rounds of one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from domain.roads import Result
from domain.round import Round
from domain.shoe import CARDS_BEHIND_CUT_CARD, Shoe, ShoeEvent
from infrastructure.pages.ledger import AskedLedger
from infrastructure.pages.shoe_page import results_of
from projections import runner
from projections.rounds import RoundLine, rounds
from projections.shoes import ShoeLine, shoes
from projections.tables import TableLine, tables

ROUNDS_SHOWN = 20
SHOES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Stakes:
    """What lies on one kind of bet, in minor units, and how many bets that is."""

    bet: str
    stake_minor: int
    bets: int


@dataclass(frozen=True, slots=True)
class TableView:
    """A table as it stands: its shoe, and the round that is on it or was the last."""

    table: TableLine
    shoe: Shoe | None
    round: RoundLine | None
    stakes: tuple[Stakes, ...]
    results: tuple[Result, ...]

    @property
    def cards_out(self) -> int:
        """Cards that left the shoe; those of a round that goes on are counted too."""
        if self.shoe is None:
            return 0
        on_table = 0
        if self.round is not None and self.round.state not in ("settled", "void"):
            on_table = len(self.round.player_cards) + len(self.round.banker_cards)
        return len(self.shoe.burned) + len(self.shoe.drawn) + on_table

    @property
    def cards_to_cut_card(self) -> int:
        """Where the cut card of a shuffled shoe lies, counted from its first card."""
        return 0 if self.shoe is None else 52 * self.shoe.decks - CARDS_BEHIND_CUT_CARD


@dataclass(frozen=True, slots=True)
class TablesView:
    """Tables as of a position of the ledger."""

    position: int
    tables: tuple[TableView, ...]


def tables_view(ledger: AskedLedger, *, sees: Callable[[str], bool]) -> TablesView:
    """Every table that whoever asks may see."""
    lines = [line for line in tables(ledger.connection) if sees(line.table_id)]
    # The position first: what is read after it holds at least as much.
    position = min((position for _, position in runner.positions(ledger.connection)), default=0)
    return TablesView(position, tuple(_table(ledger, line) for line in lines))


def latest_rounds(ledger: AskedLedger, table_id: str) -> list[RoundLine]:
    """The latest rounds of a table, the newest first."""
    return rounds(ledger.connection, table=table_id, limit=ROUNDS_SHOWN)[::-1]


def latest_shoes(ledger: AskedLedger, table_id: str) -> list[ShoeLine]:
    """The latest shoes of a table, the newest first."""
    return shoes(ledger.connection, table=table_id)[-SHOES_SHOWN:][::-1]


def _table(ledger: AskedLedger, table: TableLine) -> TableView:
    shoe = None
    played: Sequence[RoundLine] = ()
    if table.shoe_id is not None:
        shoe = Shoe(f"shoe:{table.shoe_id}")
        for each in ledger.reader.stream(shoe.id):
            shoe = shoe.apply(cast(ShoeEvent, each.event))
        played = rounds(ledger.connection, shoe=table.shoe_id)
    newest = played[-1] if played else None
    return TableView(
        table=table,
        shoe=shoe,
        round=newest,
        stakes=() if newest is None else _stakes(ledger, newest.round_id),
        results=results_of(played),
    )


def _stakes(ledger: AskedLedger, round_id: str) -> tuple[Stakes, ...]:
    """What was staked on each kind of bet, bets that were taken back left out."""
    round_ = Round(f"round:{round_id}")
    for event in ledger.reader.round(round_id):
        round_ = round_.apply(event)
    found: dict[str, Stakes] = {}
    for bet in round_.bets.values():
        if bet.counts:
            before = found.get(bet.kind.value, Stakes(bet.kind.value, 0, 0))
            stake_minor = before.stake_minor + bet.stake_minor
            found[bet.kind.value] = Stakes(bet.kind.value, stake_minor, before.bets + 1)
    return tuple(found.values())
