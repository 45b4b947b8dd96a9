"""The gaming days: what was staked, won and kept on each, and what was left in play.

Everything is kept by the day in whose books it falls. A round's settlement
falls into the day in which it was settled, a correction's difference into that
of the correction, and what comes for a day that is closed into the one that is
open, where it still says which day it belongs to.

The fold adds to the rows and never looks at them, so a page costs a statement a
table, whatever is in them.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields
from datetime import date, datetime
from typing import Any, NamedTuple, assert_never, cast

from psycopg import Cursor

from domain.bets import Result
from domain.event import Recorded
from domain.gaming_day import GamingCalendar
from domain.round import (
    BetCancelled,
    BetPlaced,
    BetSettled,
    BettingClosed,
    CardDealt,
    CorrectionProposed,
    CorrectionRejected,
    RoundCorrected,
    RoundEvent,
    RoundOpened,
    RoundResolved,
    RoundSettled,
    RoundState,
    RoundVoided,
    ThirdCardDrawn,
)
from domain.rules import Rules
from domain.site import GamingDayClosed, GamingDaySet, SiteEvent
from projections.gaming_days import DaySetting, calendar_after, with_setting
from projections.projection import Projection, ProjectionFailed, reading, topics_of


class Place(NamedTuple):
    """When and where something was played; `day` is the day of the books, `own_day` its own."""

    day: date
    own_day: date
    table_id: str
    shoe_id: str
    currency: str
    rules_version: int


@dataclass(slots=True)
class Play:
    """By how much an account's play on a kind of bet has changed; `win_minor` is the house's.

    It is before commission. `won_minor` and `won_bets` are the stakes that the
    players have won with.
    """

    turnover_minor: int = 0
    win_minor: int = 0
    commission_minor: int = 0
    bets: int = 0
    won_minor: int = 0
    won_bets: int = 0
    in_play_minor: int = 0


@dataclass(slots=True)
class Pair:
    """By how much two kinds of bets in the same rounds have changed, or a kind with itself.

    `rounds` have both, and `product_minor` sums, round by round, the product of
    what was staked on the one and on the other.
    """

    rounds: int = 0
    product_minor: int = 0


@dataclass(slots=True)
class Count:
    """By how many the rounds have changed that are settled, and that are void."""

    rounds: int = 0
    void_rounds: int = 0


@dataclass(slots=True)
class Wager:
    """A bet of a round, and what it came to."""

    account_id: str
    bet: str
    stake_minor: int
    result: str = Result.OPEN.value
    win_minor: int = 0
    commission_minor: int = 0


@dataclass(slots=True)
class RoundRow:
    """A row of `day_rounds`: what the fold must know of a round, its bets as they stand."""

    round_id: str
    table_id: str
    shoe_id: str
    currency: str
    rules_version: int
    state: str
    bets: dict[str, Any] = field(default_factory=dict)


class Days(Projection):
    """The measures of every gaming day, and what the fold must know of rounds and of the site."""

    name = "days"
    version = 1
    tables = ("day_play", "day_pairs", "day_counts", "day_rounds", "day_rules", "day_settings")
    topics = topics_of(RoundEvent) | topics_of(SiteEvent)
    ddl = """
        CREATE TABLE day_play (
            day date NOT NULL,
            own_day date NOT NULL,
            table_id text COLLATE "C" NOT NULL,
            shoe_id text COLLATE "C" NOT NULL,
            currency text COLLATE "C" NOT NULL,
            rules_version bigint NOT NULL,
            account_id text COLLATE "C" NOT NULL,
            bet text COLLATE "C" NOT NULL,
            turnover_minor numeric(38, 0) NOT NULL,
            win_minor numeric(38, 0) NOT NULL,
            commission_minor numeric(38, 0) NOT NULL,
            bets bigint NOT NULL,
            won_minor numeric(38, 0) NOT NULL,
            won_bets bigint NOT NULL,
            in_play_minor numeric(38, 0) NOT NULL,
            PRIMARY KEY (
                day, own_day, table_id, shoe_id, currency, rules_version, account_id, bet
            )
        );
        CREATE TABLE day_pairs (
            day date NOT NULL,
            own_day date NOT NULL,
            table_id text COLLATE "C" NOT NULL,
            shoe_id text COLLATE "C" NOT NULL,
            currency text COLLATE "C" NOT NULL,
            rules_version bigint NOT NULL,
            bet text COLLATE "C" NOT NULL,
            other_bet text COLLATE "C" NOT NULL,
            rounds bigint NOT NULL,
            product_minor numeric(76, 0) NOT NULL,
            PRIMARY KEY (
                day, own_day, table_id, shoe_id, currency, rules_version, bet, other_bet
            )
        );
        CREATE TABLE day_counts (
            day date NOT NULL,
            own_day date NOT NULL,
            table_id text COLLATE "C" NOT NULL,
            shoe_id text COLLATE "C" NOT NULL,
            currency text COLLATE "C" NOT NULL,
            rules_version bigint NOT NULL,
            rounds bigint NOT NULL,
            void_rounds bigint NOT NULL,
            PRIMARY KEY (day, own_day, table_id, shoe_id, currency, rules_version)
        );
        CREATE TABLE day_rounds (
            round_id text COLLATE "C" PRIMARY KEY,
            table_id text COLLATE "C" NOT NULL,
            shoe_id text COLLATE "C" NOT NULL,
            currency text COLLATE "C" NOT NULL,
            rules_version bigint NOT NULL,
            state text COLLATE "C" NOT NULL,
            bets jsonb NOT NULL
        );
        CREATE TABLE day_rules (
            table_id text COLLATE "C" NOT NULL,
            rules_version bigint NOT NULL,
            rules jsonb NOT NULL,
            PRIMARY KEY (table_id, rules_version)
        );
        CREATE TABLE day_settings (
            position bigint PRIMARY KEY,
            since timestamptz NOT NULL,
            zone text COLLATE "C",
            starts_at text COLLATE "C",
            closed date
        );
    """

    def fold(self, cursor: Cursor[Any], events: Sequence[Recorded]) -> None:
        page = _Page(cursor, events)
        for recorded in events:
            try:
                page.take(recorded)
            except (LookupError, ValueError) as error:
                reason = f"{recorded.event.TOPIC} of {recorded.event.originator_id}: {error}"
                raise ProjectionFailed(self.name, recorded.position, reason) from error
        page.write()


_SELECT_ROUNDS = """
    SELECT round_id, table_id, shoe_id, currency, rules_version, state, bets
      FROM day_rounds
     WHERE round_id = ANY (%(ids)b::text[])
"""
_UPSERT_ROUNDS = """
    INSERT INTO day_rounds (
        round_id, table_id, shoe_id, currency, rules_version, state, bets
    )
    SELECT * FROM unnest(
        %(round_id)b::text[], %(table_id)b::text[], %(shoe_id)b::text[], %(currency)b::text[],
        %(rules_version)b::bigint[], %(state)b::text[], %(bets)b::jsonb[]
    )
    ON CONFLICT (round_id) DO UPDATE SET state = excluded.state, bets = excluded.bets
"""
_ADD_RULES = """
    INSERT INTO day_rules (table_id, rules_version, rules)
    VALUES (%(table_id)s, %(rules_version)s, %(rules)s)
    ON CONFLICT (table_id, rules_version) DO NOTHING
"""
_SELECT_SETTINGS = (
    "SELECT position, since, zone, starts_at, closed FROM {}day_settings ORDER BY position"
)
_ADD_SETTING = """
    INSERT INTO day_settings (position, since, zone, starts_at, closed)
    VALUES (%(position)s, %(since)s, %(zone)s, %(starts_at)s, %(closed)s)
"""
_ADD_PLAY = """
    INSERT INTO day_play (
        day, own_day, table_id, shoe_id, currency, rules_version, account_id, bet,
        turnover_minor, win_minor, commission_minor, bets, won_minor, won_bets, in_play_minor
    )
    SELECT * FROM unnest(
        %(day)b::date[], %(own_day)b::date[], %(table_id)b::text[], %(shoe_id)b::text[],
        %(currency)b::text[], %(rules_version)b::bigint[], %(account_id)b::text[],
        %(bet)b::text[], %(turnover_minor)b::numeric[], %(win_minor)b::numeric[],
        %(commission_minor)b::numeric[], %(bets)b::bigint[], %(won_minor)b::numeric[],
        %(won_bets)b::bigint[], %(in_play_minor)b::numeric[]
    )
    ON CONFLICT (day, own_day, table_id, shoe_id, currency, rules_version, account_id, bet)
    DO UPDATE SET
        turnover_minor = day_play.turnover_minor + excluded.turnover_minor,
        win_minor = day_play.win_minor + excluded.win_minor,
        commission_minor = day_play.commission_minor + excluded.commission_minor,
        bets = day_play.bets + excluded.bets,
        won_minor = day_play.won_minor + excluded.won_minor,
        won_bets = day_play.won_bets + excluded.won_bets,
        in_play_minor = day_play.in_play_minor + excluded.in_play_minor
"""
_ADD_PAIRS = """
    INSERT INTO day_pairs (
        day, own_day, table_id, shoe_id, currency, rules_version, bet, other_bet,
        rounds, product_minor
    )
    SELECT * FROM unnest(
        %(day)b::date[], %(own_day)b::date[], %(table_id)b::text[], %(shoe_id)b::text[],
        %(currency)b::text[], %(rules_version)b::bigint[], %(bet)b::text[],
        %(other_bet)b::text[], %(rounds)b::bigint[], %(product_minor)b::numeric[]
    )
    ON CONFLICT (day, own_day, table_id, shoe_id, currency, rules_version, bet, other_bet)
    DO UPDATE SET
        rounds = day_pairs.rounds + excluded.rounds,
        product_minor = day_pairs.product_minor + excluded.product_minor
"""
_ADD_COUNTS = """
    INSERT INTO day_counts (
        day, own_day, table_id, shoe_id, currency, rules_version, rounds, void_rounds
    )
    SELECT * FROM unnest(
        %(day)b::date[], %(own_day)b::date[], %(table_id)b::text[], %(shoe_id)b::text[],
        %(currency)b::text[], %(rules_version)b::bigint[], %(rounds)b::bigint[],
        %(void_rounds)b::bigint[]
    )
    ON CONFLICT (day, own_day, table_id, shoe_id, currency, rules_version)
    DO UPDATE SET
        rounds = day_counts.rounds + excluded.rounds,
        void_rounds = day_counts.void_rounds + excluded.void_rounds
"""


class _Page:
    """Events of one page: what was known before them, and by how much they change the measures."""

    def __init__(self, cursor: Cursor[Any], events: Sequence[Recorded]) -> None:
        self._cursor = cursor
        self._rounds = self._known_rounds(events)
        self._staked: dict[str, Counter[str]] = {}
        self._calendar = calendar(cursor, schema="")
        self._days: dict[datetime, tuple[date, date]] = {}
        self._settings: list[DaySetting] = []
        self._rules: dict[tuple[str, int], Rules] = {}
        self._play: dict[tuple[Place, str, str], Play] = defaultdict(Play)
        self._pairs: dict[tuple[Place, str, str], Pair] = defaultdict(Pair)
        self._counts: dict[Place, Count] = defaultdict(Count)

    def take(self, recorded: Recorded) -> None:
        """Takes an event in; raises LookupError or ValueError where it does not fit."""
        event = cast(RoundEvent | SiteEvent, recorded.event)
        if isinstance(event, GamingDaySet | GamingDayClosed):
            self._take_setting(recorded.position, event)
            return
        round_id = event.originator_id.removeprefix("round:")
        if isinstance(event, RoundOpened):
            self._open(round_id, event)
            return
        row = self._rounds.get(round_id)
        if row is None:
            if isinstance(event, BetCancelled):
                # A tombstone. The bet that it forbids will never be placed.
                return
            raise LookupError(f"round {round_id} was never opened")
        self._take_of_round(row, event)

    def _take_of_round(self, row: RoundRow, event: RoundEvent) -> None:
        match event:
            case BetPlaced():
                wager = Wager(event.account_id, event.bet.value, event.stake_minor)
                row.bets[event.bet_id] = wager
                self._play_of(row, wager, event.at).in_play_minor += wager.stake_minor
            case BetCancelled():
                wager = row.bets.pop(event.bet_id, None)
                if wager is not None:
                    self._play_of(row, wager, event.at).in_play_minor -= wager.stake_minor
            case BetSettled():
                wager = row.bets[event.bet_id]
                self._play_of(row, wager, event.at).in_play_minor -= wager.stake_minor
                self._staked_in(row)
                wager.result = event.result.value
                wager.win_minor = event.win_minor
                wager.commission_minor = event.commission_minor
                self._count(row, wager, event.at, sign=1)
            case RoundSettled():
                row.state = RoundState.SETTLED.value
                self._counts[self._place(row, event.at)].rounds += 1
            case RoundVoided():
                for wager in row.bets.values():
                    self._play_of(row, wager, event.at).in_play_minor -= wager.stake_minor
                row.bets = {}
                row.state = RoundState.VOID.value
                self._counts[self._place(row, event.at)].void_rounds += 1
            case RoundCorrected():
                self._correct(row, event)
            case (
                CardDealt()
                | ThirdCardDrawn()
                | RoundResolved()
                | BettingClosed()
                | RoundOpened()
                | CorrectionProposed()
                | CorrectionRejected()
            ):
                pass
            case _:
                assert_never(event)

    def write(self) -> None:
        """Adds the changes to the tables."""
        play = [(*place, *rest, *astuple(each)) for (place, *rest), each in self._play.items()]
        pairs = [(*place, *rest, *astuple(each)) for (place, *rest), each in self._pairs.items()]
        counts = [(*place, *astuple(each)) for place, each in self._counts.items()]
        key = Place._fields
        self._add(_ADD_PLAY, (*key, "account_id", "bet", *_names(Play)), play)
        self._add(_ADD_PAIRS, (*key, "bet", "other_bet", *_names(Pair)), pairs)
        self._add(_ADD_COUNTS, (*key, *_names(Count)), counts)
        rounds = [
            (*(getattr(row, name) for name in _names(RoundRow)[:-1]), _stored(row.bets))
            for row in self._rounds.values()
        ]
        self._add(_UPSERT_ROUNDS, _names(RoundRow), rounds)
        for (table_id, rules_version), rules in self._rules.items():
            named = {"table_id": table_id, "rules_version": rules_version}
            document = rules.model_dump(mode="json", exclude_none=True)
            self._cursor.execute(_ADD_RULES, {**named, "rules": document})
        for setting in self._settings:
            self._cursor.execute(_ADD_SETTING, asdict(setting))

    def _add(self, statement: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            columns = zip(*rows, strict=True)
            self._cursor.execute(
                statement, {name: list(c) for name, c in zip(names, columns, strict=True)}
            )

    def _open(self, round_id: str, event: RoundOpened) -> None:
        if round_id in self._rounds:
            raise ValueError(f"{round_id} is there already")
        self._rounds[round_id] = RoundRow(
            round_id,
            event.table_id,
            event.shoe_id,
            event.currency,
            event.rules_version,
            RoundState.BETTING.value,
        )
        self._rules[event.table_id, event.rules_version] = event.rules

    def _take_setting(self, position: int, event: SiteEvent) -> None:
        setting = DaySetting.of(position, event)
        self._settings.append(setting)
        self._calendar = with_setting(self._calendar, setting)
        self._days.clear()

    def _correct(self, row: RoundRow, event: RoundCorrected) -> None:
        """Takes back what was settled; what holds is settled anew by the events that follow."""
        self._staked_in(row)
        counted = {
            bet_id: wager
            for bet_id, wager in row.bets.items()
            if wager.result != Result.RETURNED.value
        }
        for wager in counted.values():
            self._count(row, wager, event.at, sign=-1)
        held = {
            bet.bet_id: Wager(bet.account_id, bet.bet.value, bet.stake_minor) for bet in event.bets
        }
        gone = {
            bet_id: Wager(wager.account_id, wager.bet, wager.stake_minor)
            for bet_id, wager in counted.items()
            if bet_id not in held
        }
        row.bets = {**gone, **held}
        for wager in row.bets.values():
            self._play_of(row, wager, event.at).in_play_minor += wager.stake_minor
        if event.is_void:
            row.state = RoundState.VOID.value
            count = self._counts[self._place(row, event.at)]
            count.rounds -= 1
            count.void_rounds += 1

    def _count(self, row: RoundRow, wager: Wager, at: datetime, *, sign: int) -> None:
        """Counts a settled bet, or no longer."""
        if wager.result == Result.RETURNED.value:
            return
        stake_minor = sign * wager.stake_minor
        is_lost = wager.result == Result.LOST.value
        play = self._play_of(row, wager, at)
        play.turnover_minor += stake_minor
        play.win_minor += stake_minor if is_lost else -sign * wager.win_minor
        play.commission_minor += sign * wager.commission_minor
        play.bets += sign
        if wager.result == Result.WON.value:
            play.won_minor += stake_minor
            play.won_bets += sign
        self._count_pairs(row, wager.bet, stake_minor, self._place(row, at))

    def _count_pairs(self, row: RoundRow, bet: str, change_minor: int, place: Place) -> None:
        staked = self._staked_in(row)
        before = staked[bet]
        after = staked[bet] = before + change_minor
        for other, other_minor in staked.items():
            pair = self._pairs[(place, *sorted((bet, other)))]  # type: ignore[index]
            if other == bet:
                pair.product_minor += after * after - before * before
                pair.rounds += (after > 0) - (before > 0)
            else:
                pair.product_minor += change_minor * other_minor
                pair.rounds += ((after > 0) - (before > 0)) * (other_minor > 0)

    def _staked_in(self, row: RoundRow) -> Counter[str]:
        """What is staked on each kind in the settled bets of a round.

        It has to be asked for before the first of them changes.
        """
        staked = self._staked.get(row.round_id)
        if staked is None:
            staked = self._staked[row.round_id] = Counter()
            for wager in row.bets.values():
                if wager.result not in (Result.OPEN.value, Result.RETURNED.value):
                    staked[wager.bet] += wager.stake_minor
        return staked

    def _play_of(self, row: RoundRow, wager: Wager, at: datetime) -> Play:
        return self._play[self._place(row, at), wager.account_id, wager.bet]

    def _place(self, row: RoundRow, at: datetime) -> Place:
        days = self._days.get(at)
        if days is None:
            days = self._days[at] = (self._calendar.booked_on(at), self._calendar.day_of(at))
        return Place(*days, row.table_id, row.shoe_id, row.currency, row.rules_version)

    def _known_rounds(self, events: Sequence[Recorded]) -> dict[str, RoundRow]:
        ids = {event.originator_id.removeprefix("round:") for _, event in events}
        with reading(self._cursor.connection, RoundRow) as found:
            found.execute(_SELECT_ROUNDS, {"ids": list(ids)})
            rows = {row.round_id: row for row in found}
        for row in rows.values():
            row.bets = {bet_id: Wager(*stored) for bet_id, stored in row.bets.items()}
        return rows


def calendar(cursor: Cursor[Any], *, schema: str = "projection.") -> GamingCalendar:
    """The site's gaming days as far as the events are folded."""
    with reading(cursor.connection, DaySetting) as settings:
        return calendar_after(settings.execute(_SELECT_SETTINGS.format(schema).encode()))


def _stored(bets: Mapping[str, Wager]) -> dict[str, list[Any]]:
    return {bet_id: list(astuple(wager)) for bet_id, wager in bets.items()}


def _names(row_type: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(row_type))
