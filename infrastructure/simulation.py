"""Plays whole shoes by itself: the seed decides every id, key, card, bet and time.

What a simulation needs to know beforehand it works out from the rules alone,
so none of its commands waits for the answer to another and they go in batches.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from domain.bets import BetKind
from domain.cards import Card
from domain.errors import Refused
from domain.event import MAXIMUM_MINOR, Stamp
from domain.money import DECIMALS
from domain.rules import STANDARD_RULES, Rules
from domain.shoe import MOST_CARDS_A_ROUND, Shoe
from domain.shuffle import SEED_BYTES, NumberStream
from domain.tableau import Hand, next_hand
from infrastructure.casino import Casino
from infrastructure.commands import contract
from infrastructure.commands.execution import Answer, Client, execute_in_batches

CLIENT = Client("simulate", is_bound_to_clock=False)
STARTS_AT = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
SEATS_MAX = 300
"""A round takes a thousand bets, and a seat makes up to three of them."""

_LABEL = b"puntobanco/simulation/1/"
_CHIPS_MINOR = (500, 1_000, 2_500, 10_000)
_ODD_MINOR = 100
_DEPOSITS_ARE_MULTIPLES_OF = 10_000
_MAIN_BETS = (BetKind.BANKER, BetKind.PLAYER)
_SEED_DIGITS_MAX = 12

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class SimulationReport:
    """What came of the commands; rounds and bets are those that stand, replayed ones included.

    `position` is that of the last event that a command answered with.
    """

    tables: int
    shoes: int
    seats: int
    currency: str
    rounds: int = 0
    bets: int = 0
    commands: int = 0
    replayed: int = 0
    refused: int = 0
    first_refusal: str | None = None
    position: int | None = None

    def add(self, command: contract.Command, answer: Answer) -> None:
        """Counts one answered command."""
        self.commands += 1
        self.replayed += answer["replayed"]
        if not answer["ok"]:
            self.refused += 1
            if self.first_refusal is None:
                self.first_refusal = f"{command.key}: {answer['error']['message']}"
            return
        self.position = max(self.position or 0, answer["position"])
        if isinstance(command, contract.PlayRound):
            self.rounds += 1
            self.bets += len(command.bets)

    def to_json(self) -> dict[str, Any]:
        """The report for programs."""
        return asdict(self)

    def __str__(self) -> str:
        text = f"Rounds: {self.rounds:,}, bets: {self.bets:,}, shoes: {self.tables * self.shoes:,}"
        if self.replayed == self.commands:
            text += ", all of them there already"
        elif self.replayed:
            text += f", {self.replayed:,} of {self.commands:,} commands there already"
        if self.refused:
            text += f"; {self.refused:,} commands refused, the first {self.first_refusal}"
        return text


def simulate(
    casino: Casino,
    *,
    tables: int,
    shoes: int,
    seats: int,
    seed: int,
    currency: str = "USD",
    rules: Rules | None = None,
    batch: int = 20,
    progress: Progress | None = None,
) -> SimulationReport:
    """Plays `shoes` whole shoes at each of the tables, `batch` rounds in a transaction.

    Tables play one after another. The same seed again is all replayed, and in
    another ledger it gives the same events. `progress` is told how many of all
    the rounds are played, after each transaction.
    """
    if currency not in DECIMALS:
        raise Refused(
            "invalid_command", f"{currency[:20]!r} is not an ISO 4217 currency", field="currency"
        )
    if seats > SEATS_MAX:
        raise Refused("invalid_command", f"a table has at most {SEATS_MAX} seats", field="seats")
    assert min(tables, shoes, seats, seed) >= 0
    play = Play(
        seed,
        tables=tables,
        shoes=shoes,
        seats=seats,
        currency=currency,
        rules=rules or STANDARD_RULES,
    )
    report = SimulationReport(tables=tables, shoes=shoes, seats=seats, currency=currency)
    done, total = 0, play.rounds
    batches = _batches(play.commands(), batch)
    for commands, answers in execute_in_batches(casino, batches, client=CLIENT):
        for command, answer in zip(commands, answers, strict=True):
            if not answer["ok"] and answer["error"]["code"] == "store_unavailable":
                raise Refused("store_unavailable", answer["error"]["message"])
            report.add(command, answer)
        done += sum(isinstance(command, contract.PlayRound) for command in commands)
        if progress is not None:
            progress(done, total)
    return report


def _batches(
    commands: Iterator[contract.Command], rounds_max: int
) -> Iterator[list[contract.Command]]:
    taken: list[contract.Command] = []
    rounds = 0
    for command in commands:
        taken.append(command)
        rounds += isinstance(command, contract.PlayRound)
        if rounds == rounds_max:
            yield taken
            taken, rounds = [], 0
    if taken:
        yield taken


class Play:
    """The commands of one simulation, in order."""

    def __init__(
        self,
        seed: int,
        *,
        tables: int,
        shoes: int,
        seats: int,
        currency: str,
        rules: Rules,
    ) -> None:
        self._seed = hashlib.sha256(_LABEL + f"{seed:x}".encode()).digest()
        self._name = _name(seed)
        self._tables = tables
        self._shoes = shoes
        self._seats = seats
        self._currency = currency
        self._rules = rules
        self._side_bets = [
            kind
            for kind in BetKind
            if kind in self._rules.odds and kind not in (*_MAIN_BETS, BetKind.TIE)
        ]
        self._at = STARTS_AT
        self._rounds = {
            (table, shoe): _count_rounds(self._shoe_seed(table, shoe), self._rules)
            for table in range(1, tables + 1)
            for shoe in range(1, shoes + 1)
        }

    @property
    def rounds(self) -> int:
        """How many rounds are played in all."""
        return sum(self._rounds.values())

    def commands(self) -> Iterator[contract.Command]:
        for table in range(1, self._tables + 1):
            yield from self._play_table(table)

    def _play_table(self, table: int) -> Iterator[contract.Command]:
        table_id = f"{self._name}-T{table}"
        yield contract.OpenTable(
            command="open_table",
            key=table_id,
            at=self._at,
            table_id=table_id,
            currency=self._currency,
            rules=self._rules,
        )
        numbers = self._numbers(f"table/{table}/")
        accounts = [f"{table_id}-P{seat}" for seat in range(1, self._seats + 1)]
        chips = [_CHIPS_MINOR[numbers.below(len(_CHIPS_MINOR))] for _ in accounts]
        for account_id in accounts:
            yield contract.OpenAccount(
                command="open_account",
                key=account_id,
                at=self._at,
                account_id=account_id,
                currency=self._currency,
            )
        for shoe in range(1, self._shoes + 1):
            yield from self._play_shoe(table, shoe, accounts, chips)

    def _play_shoe(
        self, table: int, shoe: int, accounts: Sequence[str], chips: Sequence[int]
    ) -> Iterator[contract.Command]:
        table_id = f"{self._name}-T{table}"
        shoe_id = f"{table_id}-S{shoe}"
        numbers = self._numbers(f"table/{table}/shoe/{shoe}/")
        round_ids = [f"{shoe_id}-R{number}" for number in range(1, self._rounds[table, shoe] + 1)]
        bets = [self._bets(round_id, accounts, chips, numbers) for round_id in round_ids]

        for seat, account_id in enumerate(accounts, 1):
            amount_minor = self._needed_minor(account_id, bets)
            if amount_minor:
                yield contract.Deposit(
                    command="deposit",
                    key=f"{shoe_id}-P{seat}",
                    at=self._at,
                    account_id=account_id,
                    amount_minor=amount_minor,
                )
        yield contract.OpenShoe(
            command="open_shoe",
            key=shoe_id,
            at=self._at,
            shoe_id=shoe_id,
            table_id=table_id,
            source="shuffled",
            seed=self._shoe_seed(table, shoe).hex(),
        )
        for round_id, round_bets in zip(round_ids, bets, strict=True):
            self._at += timedelta(seconds=30 + numbers.below(31))
            yield contract.PlayRound(
                command="play_round",
                key=round_id,
                at=self._at,
                round_id=round_id,
                shoe_id=shoe_id,
                bets=tuple(round_bets),
            )
        self._at += timedelta(seconds=60)
        yield contract.CloseShoe(
            command="close_shoe", key=f"{shoe_id}-close", at=self._at, shoe_id=shoe_id
        )
        self._at += timedelta(seconds=240 + numbers.below(121))

    def _bets(
        self,
        round_id: str,
        accounts: Sequence[str],
        chips: Sequence[int],
        numbers: NumberStream,
    ) -> list[contract.Bet]:
        bets: list[contract.Bet] = []
        for account_id, chip_minor in zip(accounts, chips, strict=True):
            if numbers.below(8) == 0:
                # The seat sits this round out.
                continue
            for kind in self._kinds(numbers):
                bets.append(
                    contract.Bet(
                        bet_id=f"{round_id}-B{len(bets) + 1}",
                        account_id=account_id,
                        bet=kind,
                        stake_minor=self._stake_minor(kind, chip_minor, numbers),
                    )
                )
        return bets

    def _kinds(self, numbers: NumberStream) -> list[BetKind]:
        """What one seat bets on: Banker or Player, at times a tie or a side bet, or nothing."""
        kinds: list[BetKind] = []
        main = numbers.below(100)
        if main < 94:
            kinds.append(_MAIN_BETS[main >= 49])
        if numbers.below(9) == 0:
            kinds.append(BetKind.TIE)
        if self._side_bets and numbers.below(7) == 0:
            kinds.append(self._side_bets[numbers.below(len(self._side_bets))])
        return [kind for kind in kinds if kind in self._rules.odds]

    def _stake_minor(self, kind: BetKind, chip_minor: int, numbers: NumberStream) -> int:
        """A few chips, at times with odd cents, so that commission has to be rounded."""
        stake_minor = chip_minor * (1 + numbers.below(8))
        if kind not in _MAIN_BETS:
            stake_minor //= 5
        if numbers.below(4) == 0:
            stake_minor += numbers.below(_ODD_MINOR)
        minimum, maximum = self._rules.limits.of(kind)
        return min(max(stake_minor, minimum), maximum)

    def _needed_minor(self, account_id: str, rounds: Sequence[Sequence[contract.Bet]]) -> int:
        """A deposit that covers a shoe in which every stake is lost, and commission on top."""
        policy = self._rules.commission
        needed = 0
        for bets in rounds:
            for bet in bets:
                if bet.account_id == account_id:
                    needed += bet.stake_minor
                    if bet.bet is BetKind.BANKER:
                        # A minimum, or an increment, can take more than was won.
                        needed += max(policy.minimum_minor, policy.increment_minor)
        multiple = -(-needed // _DEPOSITS_ARE_MULTIPLES_OF) * _DEPOSITS_ARE_MULTIPLES_OF
        if multiple > MAXIMUM_MINOR:
            raise Refused("limit_above", "the table's limits are too high to simulate play by")
        return multiple

    def _shoe_seed(self, table: int, shoe: int) -> bytes:
        numbers = self._numbers(f"table/{table}/shoe/{shoe}/cards/")
        return bytes(numbers.below(256) for _ in range(SEED_BYTES))

    def _numbers(self, name: str) -> NumberStream:
        return NumberStream(self._seed, label=_LABEL + name.encode())


def _name(seed: int) -> str:
    """What ids begin with; a long seed is shortened, for ids have 64 characters."""
    if seed < 10**_SEED_DIGITS_MAX:
        return f"sim{seed}"
    return f"simx{hashlib.sha256(f'{seed:x}'.encode()).hexdigest()[:_SEED_DIGITS_MAX]}"


def _count_rounds(seed: bytes, rules: Rules) -> int:
    """How many rounds a shuffled shoe deals until its cut card, and the table's rules, end it."""
    stamp = Stamp(STARTS_AT, "", "")
    shoe = Shoe("shoe:")
    for event in shoe.open_shuffled("", decks=rules.decks, seed=seed, seed_given=True, stamp=stamp):
        shoe = shoe.apply(event)
    while True:
        try:
            started = shoe.start_round("", after_cut_card=rules.after_cut_card, stamp=stamp)
        except Refused:
            return shoe.rounds
        shoe = shoe.apply(started)
        cards = _deal(shoe.next_cards(MOST_CARDS_A_ROUND, in_round=0, seed=seed))
        if shoe.meets_cut_card(len(cards)):
            shoe = shoe.apply(shoe.reach_cut_card(stamp=stamp))
        shoe = shoe.apply(shoe.end_round(cards, stamp=stamp))


def _deal(upcoming: tuple[Card, ...]) -> tuple[Card, ...]:
    """As many of the next cards as a round takes."""
    player: list[int] = []
    banker: list[int] = []
    for taken, card in enumerate(upcoming):
        hand = next_hand(player, banker)
        if hand is None:
            return upcoming[:taken]
        (player if hand is Hand.PLAYER else banker).append(card.points)
    return upcoming
