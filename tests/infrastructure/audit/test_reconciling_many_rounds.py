"""One minor unit in one round of many is found, wherever it is, and the round is named.

`PUNTO_ROUNDS` says how many rounds there are: 100,000 take a minute.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from domain.account import AccountOpened, CommissionCharged, WinPaid
from domain.bets import BetKind
from domain.cards import parse_card
from domain.event import DomainEvent, Entry, Recorded
from domain.money import commission
from domain.round import BetPlaced, CardDealt, RoundOpened, RoundSettled
from domain.rules import Rules
from domain.table import TableOpened
from domain.tableau import Hand
from infrastructure.audit.reconciliation.comparison import Item
from infrastructure.audit.reconciliation.ledger import LedgerAmount
from infrastructure.audit.reconciliation.reconciliation import reconcile
from infrastructure.audit.reconciliation.statement import Row, Statement

ROUNDS = int(os.environ.get("PUNTO_ROUNDS", "10000"))
ODD_ONE = ROUNDS * 2 // 3
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RULES = Rules()
BANKERS_NATURAL = [
    (Hand.PLAYER, "2S"),
    (Hand.BANKER, "9D"),
    (Hand.PLAYER, "KH"),
    (Hand.BANKER, "QC"),
]
DEALT = [(hand, parse_card(card)) for hand, card in BANKERS_NATURAL]
EVENTS_PER_PAGE = 5_000

# The same lines thousands of times over, which other tests run too: measuring them takes longer.
pytestmark = pytest.mark.usefixtures("unmeasured")


def stake(number: int) -> int:
    return 10 + number % 991


def due(number: int) -> int:
    return commission(stake(number), RULES.commission)


@dataclass(frozen=True)
class Faults:
    """By how many minor units the odd round is wrong in each source."""

    in_stake: int = 0
    in_events: int = 0
    in_ledger: int = 0
    in_statement: int = 0


class Ledger:
    """Rounds in which a Banker bet wins, made as they are read."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._postings: list[tuple[int, LedgerAmount]] = []

    def pages(self) -> Iterator[list[Entry]]:
        page: list[Entry] = []
        for position, event in enumerate(self._events(), 1):
            page.append(Recorded(position, event))
            if isinstance(event, CommissionCharged):
                self._postings.append((position, self._posting(event)))
            if len(page) == EVENTS_PER_PAGE:
                yield page
                page = []
        yield page

    def postings(self, after: int, until: int) -> list[LedgerAmount]:
        read = [posting for position, posting in self._postings if after < position <= until]
        self._postings = [each for each in self._postings if each[0] > until]
        return read

    def statement(self) -> Statement:
        rows = (
            Row((f"R{number}",), "USD", due(number) + self._wrong(number, "in_statement"), number)
            for number in range(ROUNDS)
            if due(number)
        )
        return Statement(("round",), tuple(rows))

    def _events(self) -> Iterator[DomainEvent]:
        common = {"at": NOON, "actor": "dealer", "key": "k"}
        yield TableOpened(
            **common, originator_id="table:T1", originator_version=1, currency="USD", rules=RULES
        )
        for seat in range(7):
            yield AccountOpened(
                **common, originator_id=f"account:P{seat}", originator_version=1, currency="USD"
            )
        for number in range(ROUNDS):
            yield from self._round(number)

    def _round(self, number: int) -> Iterator[DomainEvent]:
        name, shoe, account = f"R{number}", f"S{number // 80}", f"P{number % 7}"
        at = NOON + timedelta(seconds=30 * number)
        common = {"at": at, "actor": "dealer", "key": "k", "originator_id": f"round:{name}"}
        yield RoundOpened(
            **common,
            originator_version=1,
            table_id="T1",
            shoe_id=shoe,
            number=number % 80 + 1,
            currency="USD",
            rules_version=1,
            rules=RULES,
        )
        staked = stake(number) + self._wrong(number, "in_stake")
        bet = {"bet_id": f"B{number}", "stake_minor": staked}
        yield BetPlaced(
            **common, originator_version=2, account_id=account, bet=BetKind.BANKER, **bet
        )
        for version, (hand, card) in enumerate(DEALT, 3):
            yield CardDealt(**common, originator_version=version, hand=hand, card=card)
        yield RoundSettled(**common, originator_version=7)
        of_account = {**common, "originator_id": f"account:{account}", "originator_version": 2}
        named = {"round_id": name, "bet_id": f"B{number}"}
        yield WinPaid(**of_account, **named, stake_minor=stake(number), win_minor=stake(number))
        charged = due(number) + self._wrong(number, "in_events")
        if charged:
            yield CommissionCharged(**of_account, **named, commission_minor=charged)

    def _posting(self, event: CommissionCharged) -> LedgerAmount:
        number = int(event.round_id.removeprefix("R"))
        item = Item(
            currency="USD",
            table="T1",
            shoe=f"S{number // 80}",
            account=event.originator_id.removeprefix("account:"),
            day=(event.at - timedelta(hours=6)).date().isoformat(),
            round=event.round_id,
            bet=event.bet_id,
        )
        posted = due(number) + self._wrong(number, "in_ledger")
        return LedgerAmount(is_due=False, item=item, amount_minor=posted)

    def _wrong(self, number: int, source: str) -> int:
        return getattr(self._faults, source) if number == ODD_ONE else 0


def load_nothing(stream: str) -> list[Entry]:
    raise AssertionError(f"{stream} was still known")


@pytest.mark.parametrize(
    ("faults", "sources"),
    [
        (Faults(), set()),
        (Faults(in_stake=20), {"events", "ledger", "statement"}),
        (Faults(in_events=1), {"events"}),
        (Faults(in_ledger=-1), {"ledger"}),
        (Faults(in_statement=1), {"statement"}),
    ],
    ids=["nothing", "recomputed", "events", "ledger", "statement"],
)
def test_a_unit_in_one_of_many_rounds_is_found(faults: Faults, sources: set[str]) -> None:
    ledger = Ledger(faults)
    reconciled = reconcile(
        ledger.pages(), ledger.postings, load_nothing, statement=ledger.statement()
    )
    assert {difference.source for difference in reconciled.differences} == sources
    for difference in reconciled.differences:
        assert difference.rounds == (f"R{ODD_ONE}",)
        assert abs(difference.found_minor - difference.expected_minor) == 1
    assert reconciled.currencies["USD"]["recomputed_minor"] == (
        sum(map(due, range(ROUNDS))) + (1 if faults.in_stake else 0)
    )
