"""A casino in memory: plays rounds by the domain's own commands and keeps what they record."""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from domain.account import Account, CommissionMarked
from domain.bets import BetKind
from domain.cards import Card, parse_burned_card, parse_card
from domain.correction import CorrectedBet, Correction
from domain.event import DomainEvent, Entry, Recorded, Stamp, Unreadable
from domain.resettlement import resettle
from domain.round import Declared, Round
from domain.rules import STANDARD_RULES, Rules
from domain.shoe import Shoe
from domain.table import Table
from infrastructure.audit.audit import Auditor, Scope
from infrastructure.audit.findings import Report

AGGREGATES: dict[str, Any] = {
    "account": Account,
    "correction": Correction,
    "round": Round,
    "shoe": Shoe,
    "table": Table,
}


def cards(text: str) -> tuple[Card, ...]:
    return tuple(parse_card(card) for card in text.split())


class Ledger:
    """Plays rounds; `recorded` is what a store would hold, in the order of commits."""

    def __init__(self) -> None:
        self.recorded: list[Recorded] = []
        self.states: dict[str, Any] = {}
        self.seeds: dict[str, bytes] = {}
        self._clock = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def stamp(self, actor: str = "dealer") -> Stamp:
        self._clock += timedelta(seconds=1)
        return Stamp(at=self._clock, actor=actor, key=f"k{len(self.recorded)}")

    def get(self, stream: str) -> Any:
        if stream not in self.states:
            self.states[stream] = AGGREGATES[stream.partition(":")[0]](stream)
        return self.states[stream]

    def save(self, *events: DomainEvent) -> None:
        for event in events:
            self.states[event.originator_id] = self.get(event.originator_id).apply(event)
            self.recorded.append(Recorded(len(self.recorded) + 1, event))

    def open_table(
        self, table_id: str, *, rules: Rules = STANDARD_RULES, currency: str = "USD"
    ) -> None:
        self.save(self.get(f"table:{table_id}").open(currency, rules=rules, stamp=self.stamp()))

    def open_account(
        self, account_id: str, *, deposit_minor: int = 1_000_00, currency: str = "USD"
    ) -> None:
        stream = f"account:{account_id}"
        self.save(self.get(stream).open(currency, stamp=self.stamp()))
        if deposit_minor:
            self.save(self.get(stream).deposit(deposit_minor, stamp=self.stamp()))

    def open_shoe(self, shoe_id: str, table_id: str, *, seed: bytes | None = None) -> None:
        table, shoe = self.get(f"table:{table_id}"), self.get(f"shoe:{shoe_id}")
        placed = table.place_shoe(shoe_id, stamp=self.stamp())
        decks = table.rules.decks
        if seed is None:
            self.save(placed, shoe.open_physical(table_id, decks=decks, stamp=self.stamp()))
            return
        self.seeds[shoe_id] = seed
        opened = shoe.open_shuffled(
            table_id, decks=decks, seed=seed, seed_given=True, stamp=self.stamp()
        )
        self.save(placed, *opened)

    def burn(self, shoe_id: str, text: str) -> None:
        burned = tuple(parse_burned_card(card) for card in text.split())
        self.save(self.get(f"shoe:{shoe_id}").burn(burned, stamp=self.stamp()))

    def reach_cut_card(self, shoe_id: str) -> None:
        self.save(self.get(f"shoe:{shoe_id}").reach_cut_card(stamp=self.stamp()))

    def close_shoe(self, shoe_id: str) -> None:
        shoe = self.get(f"shoe:{shoe_id}")
        table = self.get(f"table:{shoe.table_id}")
        for name in sorted(shoe.marked):
            account = self.get(f"account:{name}")
            due = account.commission_due_minor
            collected = account.collect(commission_minor=due, owed_minor=0, stamp=self.stamp())
            self.save(*collected)
        self.save(
            shoe.close(seed=self.seeds.get(shoe_id), stamp=self.stamp()),
            table.remove_shoe(shoe_id, stamp=self.stamp()),
        )

    def open_round(
        self, round_id: str, shoe_id: str, *, number: int | None = None, source: str | None = None
    ) -> None:
        shoe = self.get(f"shoe:{shoe_id}")
        table = self.get(f"table:{shoe.table_id}")
        if number is None:
            started = shoe.start_round(round_id, after_cut_card=1, stamp=self.stamp())
        else:
            started = shoe.start_recorded_round(round_id, number=number, stamp=self.stamp())
        opened = self.get(f"round:{round_id}").open(
            table_id=table.name,
            shoe_id=shoe_id,
            number=started.number,
            currency=table.currency,
            rules_version=table.rules_version,
            rules=table.rules,
            stamp=self.stamp(),
            recorded_from=source,
        )
        self.save(started, opened)

    def bet(
        self, bet_id: str, round_id: str, account_id: str, kind: BetKind, stake_minor: int
    ) -> None:
        placed = self.get(f"round:{round_id}").place_bet(
            kind, bet_id=bet_id, account_id=account_id, stake_minor=stake_minor, stamp=self.stamp()
        )
        stake = self.get(f"account:{account_id}").place_stake(
            stake_minor, round_id=round_id, bet_id=bet_id, stamp=self.stamp()
        )
        self.save(placed, stake)

    def cancel(self, bet_id: str, round_id: str) -> None:
        round_ = self.get(f"round:{round_id}")
        self.save(round_.cancel_bet(bet_id, stamp=self.stamp()))
        if bet_id in round_.bets:
            self._resolve(round_id, only=bet_id)

    def close_betting(self, round_id: str) -> None:
        self.save(self.get(f"round:{round_id}").close_betting(stamp=self.stamp()))

    def deal(self, round_id: str, text: str | None = None, *, irregular: str | None = None) -> None:
        """Deals the cards given, or all that the tableau wants from a shuffled shoe."""
        stream = f"round:{round_id}"
        if text is not None:
            self.save(*self.get(stream).deal(cards(text), irregular=irregular, stamp=self.stamp()))
            return
        shoe = self.get(f"shoe:{self.get(stream).shoe_id}")
        while self.get(stream).declared is None:
            drawn = shoe.next_cards(
                1, in_round=len(self.get(stream).dealt), seed=self.seeds[shoe.name]
            )
            self.save(*self.get(stream).deal(drawn, irregular=None, stamp=self.stamp()))

    def settle(self, round_id: str) -> None:
        self.save(*self.get(f"round:{round_id}").settle(stamp=self.stamp()))
        self._end(round_id, marked=self._resolve(round_id))

    def void(self, round_id: str, reason: str = "misdeal") -> None:
        self.save(self.get(f"round:{round_id}").void(reason, stamp=self.stamp()))
        self._resolve(round_id)
        self._end(round_id)

    def play(
        self,
        round_id: str,
        shoe_id: str,
        text: str | None = None,
        *,
        bets: Sequence[tuple[str, BetKind, int]] = (),
    ) -> None:
        """A whole round; each bet is an account, what it bets on and its stake."""
        self.open_round(round_id, shoe_id)
        for number, (account_id, kind, stake_minor) in enumerate(bets, 1):
            self.bet(f"{round_id}-b{number}", round_id, account_id, kind, stake_minor)
        self.close_betting(round_id)
        self.deal(round_id, text)
        self.settle(round_id)

    def record(
        self,
        round_id: str,
        shoe_id: str,
        *,
        number: int,
        player: tuple[Card, ...],
        banker: tuple[Card, ...],
        declared: Declared,
    ) -> None:
        """A round as another system recorded it."""
        self.open_round(round_id, shoe_id, number=number, source="other")
        round_ = self.get(f"round:{round_id}")
        self.save(
            *round_.record(player=player, banker=banker, declared=declared, stamp=self.stamp())
        )
        self._end(round_id)

    def propose(
        self,
        correction_id: str,
        round_id: str,
        *,
        text: str | None = None,
        bets: Sequence[tuple[str, str, BetKind, int]] | None = None,
        is_void: bool = False,
    ) -> None:
        """Each bet is its id, an account, what it bets on and its stake."""
        stamp = self.stamp("pit")
        filed = self.get(f"correction:{correction_id}").file(round_id, stamp=stamp)
        proposed = self.get(f"round:{round_id}").propose_correction(
            correction_id,
            cards=None if text is None else cards(text),
            bets=None if bets is None else tuple(CorrectedBet(*bet) for bet in bets),
            is_void=is_void,
            reason="seen on camera",
            stamp=stamp,
        )
        self.save(filed, proposed)

    def reject(self, correction_id: str, round_id: str) -> None:
        round_ = self.get(f"round:{round_id}")
        self.save(round_.reject_correction(correction_id, stamp=self.stamp()))

    def approve(self, correction_id: str, round_id: str) -> None:
        """Approves a correction; the accounts that it changes record what it does to them."""
        stamp = self.stamp()
        before = self.get(f"round:{round_id}")
        decided = before.approve_correction(correction_id, stamp=stamp)
        after = before
        for event in decided:
            after = after.apply(event)
        shoe = self.get(f"shoe:{before.shoe_id}")
        names = [
            bet.account_id
            for change in before.changes(after)
            for bet in (change.was, change.becomes)
            if bet is not None
        ]
        resettled = resettle(
            before,
            after,
            {name: self.get(f"account:{name}") for name in dict.fromkeys(names)},
            correction_id=correction_id,
            shoe_is_closed=shoe.is_closed,
            stamp=stamp,
        )
        drawn = shoe.correct_draw(
            round_id,
            correction_id=correction_id,
            instead_of=before.dealt,
            cards=after.dealt,
            marked=() if shoe.is_closed else resettled.marked,
            stamp=stamp,
        )
        self.save(*resettled.reversed, *decided, *resettled.settled, *drawn)

    def correct(self, correction_id: str, round_id: str, **what_holds: Any) -> None:
        """Proposes and approves."""
        self.propose(correction_id, round_id, **what_holds)
        self.approve(correction_id, round_id)

    def collect_due(self, account_id: str) -> None:
        self.save(*self.get(f"account:{account_id}").collect_due(stamp=self.stamp()))

    def _resolve(self, round_id: str, *, only: str | None = None) -> list[str]:
        """The accounts for which commission was marked."""
        round_ = self.get(f"round:{round_id}")
        marked = []
        for bet in round_.bets.values():
            account = self.get(f"account:{bet.account_id}")
            if (round_id, bet.id) in account.stakes and only in (None, bet.id):
                resolved = account.resolve_stake(
                    bet.settlement,
                    round_id=round_id,
                    bet_id=bet.id,
                    collection=round_.rules.commission.collection,
                    stamp=self.stamp(),
                )
                self.save(*resolved)
                if any(isinstance(event, CommissionMarked) for event in resolved):
                    marked.append(bet.account_id)
        return marked

    def _end(self, round_id: str, *, marked: Sequence[str] = ()) -> None:
        round_ = self.get(f"round:{round_id}")
        shoe = self.get(f"shoe:{round_.shoe_id}")
        self.save(shoe.end_round(round_.dealt, marked=marked, stamp=self.stamp()))


def loader(stored: Iterable[Entry]) -> Callable[[Collection[str]], list[Entry]]:
    """Finds rounds' own events and those that name them, as the store does."""
    stored = list(stored)

    def load_rounds(round_ids: Collection[str]) -> list[Entry]:
        streams = {f"round:{round_id}" for round_id in round_ids}
        return [
            entry
            for entry in stored
            if (
                entry.stream in streams
                if isinstance(entry, Unreadable)
                else entry.event.originator_id in streams
                or getattr(entry.event, "round_id", None) in round_ids
            )
        ]

    return load_rounds


def streamer(stored: Iterable[Entry]) -> Callable[[str], list[Entry]]:
    """Finds a stream's events, as the store does."""
    stored = list(stored)

    def load_stream(stream: str) -> list[Entry]:
        return [
            entry
            for entry in stored
            if stream
            == (entry.stream if isinstance(entry, Unreadable) else entry.event.originator_id)
        ]

    return load_stream


def run_audit(stored: Iterable[Entry], *, scope: Scope | None = None, **options: Any) -> Report:
    """Audits everything, one event after another."""
    stored = list(stored)
    auditor = Auditor(loader(stored), streamer(stored), scope=scope, **options)
    auditor.see_all(stored)
    return auditor.finish()


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def new_ledger() -> type[Ledger]:
    return Ledger


@pytest.fixture
def audited() -> Callable[..., Report]:
    return run_audit


@pytest.fixture
def load_from() -> Callable[[Iterable[Entry]], tuple[Callable[..., list[Entry]], ...]]:
    """What loads rounds and streams from a ledger, for an auditor."""
    return lambda stored: (loader(stored), streamer(stored))


def play_an_evening() -> list[Recorded]:
    """Every kind of event at least once, at two tables that play at the same time."""
    ledger = Ledger()
    deferred = {"collection": "deferred"}
    ledger.open_table("T1")
    ledger.open_table(
        "T2", rules=Rules.model_validate({"commission": deferred, "decks": 6}, strict=False)
    )
    for account_id in ("ann", "bob", "cyd"):
        ledger.open_account(account_id)
    ledger.open_shoe("S1", "T1")
    ledger.open_shoe("S2", "T2", seed=bytes(range(32)))
    ledger.burn("S1", "2C ?? ??")

    # A three-card Banker win with commission, a tie bet lost, a Player bet lost.
    ledger.open_round("R1", "S1")
    ledger.bet("R1-b1", "R1", "ann", BetKind.BANKER, 100_00)
    ledger.bet("R1-b2", "R1", "bob", BetKind.PLAYER, 50_00)
    ledger.bet("R1-b3", "R1", "bob", BetKind.TIE, 10_00)
    ledger.bet("R1-b4", "R1", "ann", BetKind.PLAYER_PAIR, 5_00)
    ledger.cancel("R1-b4", "R1")
    ledger.cancel("R1-b9", "R1")

    # Meanwhile at the other table.
    ledger.play("R2", "S2", bets=[("cyd", BetKind.BANKER, 40_00), ("ann", BetKind.PLAYER, 20_00)])

    ledger.close_betting("R1")
    ledger.deal("R1", "2S 3H AD KC 4C 5D")
    ledger.settle("R1")

    # A tie: Player and Banker push, the tie wins.
    ledger.play(
        "R3",
        "S1",
        "9S 9H KD KC",
        bets=[
            ("ann", BetKind.PLAYER, 30_00),
            ("bob", BetKind.BANKER, 30_00),
            ("cyd", BetKind.TIE, 7_00),
        ],
    )

    # Called off with cards on the table.
    ledger.open_round("R4", "S1")
    ledger.bet("R4-b1", "R4", "ann", BetKind.BANKER, 25_00)
    ledger.close_betting("R4")
    ledger.deal("R4", "7S 2H")
    ledger.void("R4")

    for number in range(5, 12):
        ledger.play(
            f"R{number}",
            "S2",
            bets=[("cyd", BetKind.BANKER, 40_00), ("bob", BetKind.PLAYER, 20_00)],
        )
    ledger.reach_cut_card("S1")
    ledger.play("R12", "S1", "QS 6H 6D AC", bets=[("ann", BetKind.BANKER, 10_00)])
    correct_what_was_settled(ledger)
    ledger.close_shoe("S1")
    ledger.close_shoe("S2")
    ann = ledger.get("account:ann")
    ledger.save(ann.withdraw(1_00, stamp=ledger.stamp()))
    ledger.save(ledger.get("account:ann").freeze("asked for it", stamp=ledger.stamp()))
    ledger.save(ledger.get("account:ann").unfreeze("asked for it", stamp=ledger.stamp()))
    ledger.open_account("dot", deposit_minor=0)
    ledger.save(*ledger.get("account:dot").close("never came", stamp=ledger.stamp()))
    # Spent meanwhile: what the correction takes is owed, and paid from the next deposit.
    ledger.save(ledger.get("account:eve").unfreeze("seen again", stamp=ledger.stamp()))
    eve = ledger.get("account:eve")
    ledger.save(eve.withdraw(eve.available_minor, stamp=ledger.stamp()))
    ledger.correct("C6", "R12", bets=[("R12-b2", "eve", BetKind.TIE, 15_00)])
    ledger.save(ledger.get("account:eve").deposit(50_00, stamp=ledger.stamp()))
    ledger.collect_due("eve")
    eve = ledger.get("account:eve")
    ledger.save(eve.withdraw(eve.available_minor, stamp=ledger.stamp()))
    ledger.save(*ledger.get("account:eve").close("has left", stamp=ledger.stamp()))
    return ledger.recorded


def correct_what_was_settled(ledger: Ledger) -> None:
    """Corrections of every kind, before and after the shoe has closed."""
    ledger.open_account("eve", deposit_minor=0)
    ledger.save(*ledger.get("account:eve").close("never came", stamp=ledger.stamp()))
    # No tie at all: the Banker had an eight.
    ledger.correct("C1", "R3", text="9S 8H KD KC")
    # Not ann's bet but eve's, who has left with nothing and wins.
    ledger.correct("C2", "R12", bets=[("R12-b2", "eve", BetKind.BANKER, 20_00)])
    ledger.propose("C3", "R12", is_void=True)
    ledger.reject("C3", "R12")
    # A higher stake on commission that is not collected yet.
    ledger.correct(
        "C4",
        "R2",
        bets=[
            ("R2-b1", "cyd", BetKind.BANKER, 60_00),
            ("R2-b2", "ann", BetKind.PLAYER, 20_00),
        ],
    )
    ledger.correct("C5", "R5", is_void=True)


_EVENING = play_an_evening()


@pytest.fixture
def evening() -> list[Recorded]:
    return list(_EVENING)


def renumbered(events: Iterable[DomainEvent]) -> list[Recorded]:
    """Events at positions without a gap, as one would leave them who hides a change."""
    return [Recorded(position, event) for position, event in enumerate(events, 1)]


@pytest.fixture
def at_new_positions() -> Callable[[Iterable[DomainEvent]], list[Recorded]]:
    return renumbered
