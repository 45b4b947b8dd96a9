"""The journal: every event that moves money, as an entry of balanced postings.

An amount is a debit where it is positive and a credit where it is negative, and
so is the balance after it. The database itself refuses an entry that is not zero
in each currency: what a statement adds, changes or removes is added up when the
statement ends, and an entry that it leaves unbalanced must be balanced again
when the transaction ends.

A posting has two times. `at` is when its event happened. `holds_from` is from
when on it is true: what a correction takes back and settles anew holds from the
end of the round, however late that was; only a shortfall is owed from the
correction on. And two days: `own_day` is the gaming day that it happened in,
`day` the one in whose books it stands, which is later where its own was closed
already.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from functools import lru_cache
from typing import Any, NamedTuple, cast, get_args

from psycopg import Cursor

from domain.account import (
    AccountOpened,
    CommissionCharged,
    CommissionMarked,
    DueCollected,
    FundsDeposited,
    FundsWithdrawn,
    SettlementReversed,
    StakeLost,
    StakePlaced,
    StakeReturned,
    WinPaid,
)
from domain.books import HOUSE, OWED, WALLET, Transfer, transfers
from domain.event import Recorded
from domain.gaming_day import GamingCalendar
from domain.round import BetPlaced, RoundCorrected, RoundOpened, RoundSettled, RoundVoided
from domain.site import GamingDayClosed, SiteEvent
from projections.gaming_days import DaySetting, with_setting
from projections.projection import Projection, ProjectionFailed, document, reading, topics_of

_BetEvent = (
    StakePlaced
    | StakeLost
    | StakeReturned
    | WinPaid
    | CommissionCharged
    | CommissionMarked
    | SettlementReversed
)
_MoneyEvent = FundsDeposited | FundsWithdrawn | DueCollected | _BetEvent
_RoundEvent = RoundOpened | BetPlaced | RoundSettled | RoundVoided | RoundCorrected
_Wanted = AccountOpened | _MoneyEvent | _RoundEvent | SiteEvent

_BET_EVENTS: tuple[type[_BetEvent], ...] = get_args(_BetEvent)
_ROUND_EVENTS: tuple[type[_RoundEvent], ...] = get_args(_RoundEvent)
_DAY_EVENTS: tuple[type[SiteEvent], ...] = get_args(SiteEvent)
_HOUSE_EVENTS = (StakeLost, WinPaid, SettlementReversed)

# The postings are sent in parts, so that the server stores one while the next one is made.
ENTRIES_PER_PART = 200


@dataclass(slots=True)
class RoundRow:
    """A row of `journal_rounds`: where a round was played, and what was staked on by each bet.

    A bet has the positions from which on it was on something; a correction its own.
    """

    round_id: str
    table_id: str
    shoe_id: str
    bets: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    corrections: dict[str, int] = field(default_factory=dict)
    ended_at: datetime | None = None


@dataclass(slots=True)
class AccountRow:
    """A row of `journal_accounts`: a ledger account, its balance and its latest posting."""

    account: str
    currency: str
    balance_minor: int
    position: int


class _Entry(NamedTuple):
    """What an event moves, before it is known what that makes of the balances.

    `common` are the columns that all its postings have in common; `at` and
    `holds_from` are times as a row has them.
    """

    recorded: Recorded
    wallet: str
    moves: list[Transfer]
    common: str
    at: str
    holds_from: str


class _Moment(NamedTuple):
    """A time, and the days that it is booked on and lies in, as a row has them."""

    at: str
    days: str


class Journal(Projection):
    """The postings, the balance of each ledger account, and what the fold must know of rounds."""

    name = "journal"
    version = 1
    tables = ("journal", "journal_accounts", "journal_rounds", "journal_days", "journal_unbalanced")
    topics = topics_of(_Wanted)
    # The names of the functions carry the version: a rebuild must not change those in use.
    ddl = """
        CREATE TABLE journal (
            position bigint NOT NULL,
            line integer NOT NULL,
            account text COLLATE "C" NOT NULL,
            currency text COLLATE "C" NOT NULL,
            amount_minor numeric(38, 0) NOT NULL,
            balance_minor numeric(38, 0) NOT NULL,
            topic text COLLATE "C" NOT NULL,
            account_id text COLLATE "C",
            number bigint,
            round_id text COLLATE "C",
            bet_id text COLLATE "C",
            table_id text COLLATE "C",
            shoe_id text COLLATE "C",
            at timestamptz NOT NULL,
            day date NOT NULL,
            own_day date NOT NULL,
            holds_from timestamptz NOT NULL,
            PRIMARY KEY (position, line)
        );
        CREATE INDEX journal_by_day ON journal (day);
        CREATE TABLE journal_accounts (
            account text COLLATE "C" NOT NULL,
            currency text COLLATE "C" NOT NULL,
            balance_minor numeric(38, 0) NOT NULL,
            position bigint NOT NULL,
            PRIMARY KEY (account, currency)
        );
        CREATE TABLE journal_rounds (
            round_id text COLLATE "C" PRIMARY KEY,
            table_id text COLLATE "C" NOT NULL,
            shoe_id text COLLATE "C" NOT NULL,
            bets jsonb NOT NULL,
            corrections jsonb NOT NULL,
            ended_at timestamptz
        );
        CREATE TABLE journal_days (
            position bigint PRIMARY KEY,
            since timestamptz NOT NULL,
            zone text COLLATE "C",
            starts_at text COLLATE "C",
            closed date
        );

        -- Holds a row only from a statement that leaves an entry unbalanced to the end of its
        -- transaction: a deferred trigger needs one, and one on every posting costs too much.
        CREATE TABLE journal_unbalanced (
            position bigint NOT NULL
        );
        CREATE OR REPLACE FUNCTION journal_note_unbalanced_v1() RETURNS trigger
        LANGUAGE plpgsql AS $$
        DECLARE
            changed text := CASE TG_OP
                WHEN 'INSERT' THEN 'SELECT position, currency, amount_minor FROM added'
                WHEN 'DELETE' THEN 'SELECT position, currency, -amount_minor FROM removed'
                ELSE 'SELECT position, currency, amount_minor FROM added
                      UNION ALL SELECT position, currency, -amount_minor FROM removed'
            END;
        BEGIN
            EXECUTE format(
                'INSERT INTO %I.journal_unbalanced (position)
                 SELECT DISTINCT position FROM (
                     SELECT position
                       FROM (%s) AS changed (position, currency, amount_minor)
                      GROUP BY position, currency
                     HAVING sum(amount_minor) <> 0
                 ) AS unbalanced',
                TG_TABLE_SCHEMA, changed
            );
            RETURN NULL;
        END $$;
        CREATE OR REPLACE FUNCTION journal_refuse_unbalanced_v1() RETURNS trigger
        LANGUAGE plpgsql AS $$
        DECLARE
            is_unbalanced boolean;
        BEGIN
            EXECUTE format(
                'SELECT EXISTS (
                     SELECT FROM %I.journal WHERE position = $1
                      GROUP BY currency HAVING sum(amount_minor) <> 0
                 )',
                TG_TABLE_SCHEMA
            ) INTO is_unbalanced USING NEW.position;
            IF is_unbalanced THEN
                RAISE EXCEPTION 'the journal entry of position % is not balanced', NEW.position
                    USING ERRCODE = 'check_violation';
            END IF;
            EXECUTE format(
                'DELETE FROM %I.journal_unbalanced WHERE position = $1', TG_TABLE_SCHEMA
            ) USING NEW.position;
            RETURN NULL;
        END $$;
        CREATE TRIGGER note_unbalanced_insert AFTER INSERT ON journal
            REFERENCING NEW TABLE AS added
            FOR EACH STATEMENT EXECUTE FUNCTION journal_note_unbalanced_v1();
        CREATE TRIGGER note_unbalanced_update AFTER UPDATE ON journal
            REFERENCING OLD TABLE AS removed NEW TABLE AS added
            FOR EACH STATEMENT EXECUTE FUNCTION journal_note_unbalanced_v1();
        CREATE TRIGGER note_unbalanced_delete AFTER DELETE ON journal
            REFERENCING OLD TABLE AS removed
            FOR EACH STATEMENT EXECUTE FUNCTION journal_note_unbalanced_v1();
        CREATE CONSTRAINT TRIGGER refuse_unbalanced AFTER INSERT ON journal_unbalanced
            DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION journal_refuse_unbalanced_v1();
    """

    indexes = """
        CREATE INDEX IF NOT EXISTS journal_by_account ON journal (account, position);
        CREATE INDEX IF NOT EXISTS journal_by_player ON journal (account_id, position);
        CREATE INDEX IF NOT EXISTS journal_by_round ON journal (round_id)
            WHERE round_id IS NOT NULL;
    """

    def fold(self, cursor: Cursor[Any], events: Sequence[Recorded]) -> None:
        start = 0
        for end, recorded in enumerate(events, start=1):
            # A closing entry adds up what is written, so it is written with what came before it.
            if end == len(events) or isinstance(recorded.event, GamingDayClosed):
                _fold(cursor, events[start:end])
                start = end


def _fold(cursor: Cursor[Any], events: Sequence[Recorded]) -> None:
    page = _Page(cursor, events)
    for recorded in events:
        try:
            page.take(recorded)
        except (LookupError, ValueError) as error:
            raise _failed(recorded, error) from error
    page.write()


_SELECT_ROUNDS = """
    SELECT round_id, table_id, shoe_id, bets, corrections, ended_at
      FROM journal_rounds
     WHERE round_id = ANY (%(ids)b::text[])
"""
_SELECT_ACCOUNTS = """
    SELECT account, currency, balance_minor, position
      FROM journal_accounts
     WHERE account = ANY (%(accounts)b::text[])
"""
_UPSERT = """
    WITH accounts AS (
        INSERT INTO journal_accounts
        SELECT * FROM json_populate_recordset(NULL::journal_accounts, %(accounts)s)
        ON CONFLICT (account, currency) DO UPDATE SET
            balance_minor = excluded.balance_minor, position = excluded.position
    )
    INSERT INTO journal_rounds
    SELECT * FROM json_populate_recordset(NULL::journal_rounds, %(rounds)s)
    ON CONFLICT (round_id) DO UPDATE SET
        bets = excluded.bets, corrections = excluded.corrections, ended_at = excluded.ended_at
"""
_SELECT_SETTINGS = """
    SELECT position, since, zone, starts_at, closed FROM journal_days ORDER BY position
"""
_INSERT_SETTING = """
    INSERT INTO journal_days (position, since, zone, starts_at, closed)
    VALUES (%(position)s, %(since)s, %(zone)s, %(starts_at)s, %(closed)s)
"""
# What of the days that are closed has not been rolled into the bankroll; of those before, all has.
_UNCLOSED = """
    SELECT account, currency, sum(amount_minor) AS balance_minor, 0 AS position
      FROM journal
     WHERE day <= %(day)s
       AND (%(closed)s::date IS NULL OR day > %(closed)s)
       AND (starts_with(account, 'win:') OR starts_with(account, 'commission:'))
     GROUP BY account, currency
    HAVING sum(amount_minor) <> 0
     ORDER BY account, currency
"""
_LAST_POSITION = "SELECT max(position) FROM journal"
_COPY = """
    COPY journal (
        position, line, account, currency, amount_minor, balance_minor, topic, account_id, number,
        bet_id, round_id, table_id, shoe_id, at, day, own_day, holds_from
    ) FROM STDIN WITH (FORMAT text, NULL '')
"""
# Of events that were parked, and folded when later ones had been folded already.
_RUN_BALANCES_ANEW = """
    UPDATE journal
       SET balance_minor = running.balance_minor
      FROM (
        SELECT position, line,
               sum(amount_minor) OVER (
                   PARTITION BY account, currency ORDER BY position, line
               ) AS balance_minor
          FROM journal
         WHERE account = ANY (%(accounts)b::text[])
      ) AS running
     WHERE journal.position = running.position AND journal.line = running.line
       AND journal.balance_minor <> running.balance_minor
"""


class _Page:
    """Events of one page: what was known before them, and what they add."""

    def __init__(self, cursor: Cursor[Any], events: Sequence[Recorded]) -> None:
        self._cursor = cursor
        self._rounds = self._known_rounds(events)
        self._changed_rounds: dict[str, RoundRow] = {}
        self._moments: dict[datetime, _Moment] = {}
        self._places: dict[str, str] = {}
        self._changed_days_at = 0
        self._calendar = GamingCalendar()
        self._know_days()
        self._closing: tuple[Recorded, date, date | None] | None = None
        self._opened: dict[str, tuple[Recorded, str]] = {}
        self._entries: list[_Entry] = []

    def take(self, recorded: Recorded) -> None:
        """Takes an event in; raises LookupError or ValueError where it does not fit."""
        event = cast(_Wanted, recorded.event)
        if recorded.position < self._changed_days_at:
            # Folded again after it was parked: its day, and what closed it, would be other ones.
            raise ValueError("gaming days were set or closed since: run `punto rebuild journal`")
        if isinstance(event, _BET_EVENTS):
            self._enter_bet(recorded, event)
        elif isinstance(event, _ROUND_EVENTS):
            self._take_round(recorded.position, event)
        elif isinstance(event, _DAY_EVENTS):
            self._take_day(recorded, event)
        elif isinstance(event, AccountOpened):
            wallet = WALLET + event.originator_id.removeprefix("account:")
            if wallet in self._opened:
                raise ValueError(f"{wallet} is there already")
            self._opened[wallet] = (recorded, _text(event.currency))
        else:
            moment = self._moment_of(event.at)
            moves = transfers(cast(_MoneyEvent, event), table_id="", bet="")
            self._enter(recorded, moves, moment, bet_and_place="\t" * 3, holds_from=moment.at)

    def write(self) -> None:
        """Adds the postings, and brings the balances and the rounds up to them."""
        accounts = self._known_accounts()
        starts = range(0, len(self._entries), ENTRIES_PER_PART)
        parts = (self._entries[start : start + ENTRIES_PER_PART] for start in starts)
        if self._entries:
            self._copy(map(accounts.post, parts))
        self._upsert(accounts, self._changed_rounds.values())
        if self._closing is not None:
            self._close_day(*self._closing)

    def _close_day(self, recorded: Recorded, day: date, closed: date | None) -> None:
        """Rolls win and commission of the days that are closed now into the bankroll."""
        with reading(self._cursor.connection, AccountRow) as found:
            unclosed = found.execute(_UNCLOSED, {"day": day, "closed": closed}).fetchall()
        if not unclosed:
            return
        accounts = self._find_accounts({HOUSE, *(row.account for row in unclosed)})
        (position, event), nothing = recorded, "\t" * 5
        common = f"{event.TOPIC}\t{nothing}\t{event.at}\t{day}\t{day}\t{event.at}\n"
        lines: list[str] = []
        for row in unclosed:
            for account, amount_minor in (
                (row.account, -row.balance_minor),
                (HOUSE, row.balance_minor),
            ):
                line = len(lines) + 1
                posted = accounts.add(account, row.currency, amount_minor, position, line)
                lines.append(f"{posted}\t{common}")
        self._copy(lines)
        self._upsert(accounts, ())

    def _copy(self, parts: Iterable[str]) -> None:
        with self._cursor.copy(_COPY) as copy:
            for part in parts:
                copy.write(part)

    def _upsert(self, accounts: "_Accounts", rounds: Iterable[RoundRow]) -> None:
        if accounts.late:
            self._cursor.execute(_RUN_BALANCES_ANEW, {"accounts": sorted(accounts.late)})
        changes = {"accounts": document(accounts.changed.values()), "rounds": document(rounds)}
        self._cursor.execute(_UPSERT, changes)

    def _take_round(self, position: int, event: _RoundEvent) -> None:
        round_id = event.originator_id.removeprefix("round:")
        if isinstance(event, RoundOpened):
            if round_id in self._rounds:
                raise ValueError(f"{round_id} is there already")
            self._rounds[round_id] = RoundRow(round_id, event.table_id, event.shoe_id)
        row = self._round(round_id)
        if isinstance(event, BetPlaced):
            row.bets.setdefault(event.bet_id, []).append((position, event.bet.value))
        elif isinstance(event, RoundCorrected):
            row.corrections[event.correction_id] = position
            for bet in event.bets:
                row.bets.setdefault(bet.bet_id, []).append((position, bet.bet.value))
        elif not isinstance(event, RoundOpened):
            row.ended_at = event.at
        self._changed_rounds[round_id] = row

    def _take_day(self, recorded: Recorded, event: SiteEvent) -> None:
        (last,) = self._cursor.execute(_LAST_POSITION).fetchone() or (None,)
        if last is not None and recorded.position < last:
            raise ValueError("later events are in the journal: run `punto rebuild journal`")
        if isinstance(event, GamingDayClosed):
            self._closing = (recorded, date.fromisoformat(event.day), self._calendar.closed)
        setting = DaySetting.of(recorded.position, event)
        self._cursor.execute(_INSERT_SETTING, asdict(setting))
        self._change_days(setting)

    def _change_days(self, setting: DaySetting) -> None:
        self._calendar = with_setting(self._calendar, setting)
        self._changed_days_at = setting.position
        self._moments.clear()

    def _enter_bet(self, recorded: Recorded, event: _BetEvent) -> None:
        row = self._round(event.round_id)
        bet = _bet(row, event, recorded.position) if isinstance(event, _HOUSE_EVENTS) else ""
        moment = self._moment_of(event.at)
        is_late = row.ended_at is not None and row.ended_at < event.at
        self._enter(
            recorded,
            transfers(event, table_id=row.table_id, bet=bet),
            moment,
            bet_and_place=f"{_text(event.bet_id)}\t{self._place_of(row)}",
            holds_from=str(row.ended_at) if is_late else moment.at,
        )

    def _enter(
        self,
        recorded: Recorded,
        moves: list[Transfer],
        moment: _Moment,
        *,
        bet_and_place: str,
        holds_from: str,
    ) -> None:
        event = recorded.event
        name = _text(event.originator_id.removeprefix("account:"))
        common = (
            f"{event.TOPIC}\t{name}\t{event.originator_version}\t{bet_and_place}"
            f"\t{moment.at}\t{moment.days}"
        )
        entry = _Entry(recorded, WALLET + name, moves, common, moment.at, holds_from)
        self._entries.append(entry)

    def _moment_of(self, at: datetime) -> _Moment:
        moment = self._moments.get(at)
        if moment is None:
            days = f"{self._calendar.booked_on(at)}\t{self._calendar.day_of(at)}"
            moment = self._moments[at] = _Moment(str(at), days)
        return moment

    def _place_of(self, row: RoundRow) -> str:
        place = self._places.get(row.round_id)
        if place is None:
            place = f"{_text(row.round_id)}\t{_text(row.table_id)}\t{_text(row.shoe_id)}"
            self._places[row.round_id] = place
        return place

    def _round(self, round_id: str) -> RoundRow:
        row = self._rounds.get(round_id)
        if row is None:
            raise LookupError(f"round {round_id} was never opened")
        return row

    def _known_rounds(self, events: Sequence[Recorded]) -> dict[str, RoundRow]:
        ids: set[str] = set()
        for _, event in events:
            if isinstance(event, _BET_EVENTS):
                ids.add(event.round_id)
            elif isinstance(event, _ROUND_EVENTS):
                ids.add(event.originator_id.removeprefix("round:"))
        with reading(self._cursor.connection, RoundRow) as found:
            found.execute(_SELECT_ROUNDS, {"ids": list(ids)})
            return {row.round_id: row for row in found}

    def _know_days(self) -> None:
        with reading(self._cursor.connection, DaySetting) as settings:
            for setting in settings.execute(_SELECT_SETTINGS):
                self._change_days(setting)

    def _known_accounts(self) -> "_Accounts":
        names = set(self._opened)
        for entry in self._entries:
            names.add(entry.wallet)
            for debit, credit, _ in entry.moves:
                names.add(debit)
                names.add(credit)
        accounts = self._find_accounts(names)
        for recorded, currency in self._opened.values():
            accounts.open(recorded, currency)
        return accounts

    def _find_accounts(self, names: Collection[str]) -> "_Accounts":
        with reading(self._cursor.connection, AccountRow) as found:
            return _Accounts(found.execute(_SELECT_ACCOUNTS, {"accounts": list(names)}))


class _Accounts:
    """The ledger accounts that a page knows, by name and currency, and those that it changes.

    `late` are those that it adds to before postings that are there already.
    """

    def __init__(self, rows: Iterable[AccountRow]) -> None:
        self.changed: dict[tuple[str, str], AccountRow] = {}
        self.late: set[str] = set()
        self._rows = {(row.account, row.currency): row for row in rows}
        self._currencies = {
            account: currency for account, currency in self._rows if account.startswith(WALLET)
        }

    def open(self, recorded: Recorded, currency: str) -> None:
        wallet = WALLET + recorded.event.originator_id.removeprefix("account:")
        if wallet in self._currencies:
            raise _failed(recorded, f"{wallet} is there already")
        self._currencies[wallet] = currency
        row = AccountRow(wallet, currency, 0, recorded.position)
        self._rows[wallet, currency] = self.changed[wallet, currency] = row

    def post(self, entries: Sequence[_Entry]) -> str:
        """Posts entries, and returns the rows of their postings."""
        parts: list[str] = []
        for recorded, wallet, moves, common, at, holds_from in entries:
            currency = self._currencies.get(wallet)
            if currency is None:
                raise _failed(recorded, f"{wallet} was never opened")
            position, line = recorded.position, 1
            for debit, credit, amount_minor in moves:
                since = at if debit.startswith(OWED) else holds_from
                rest = f"\t{common}\t{since}\n"
                parts += (
                    self.add(debit, currency, amount_minor, position, line),
                    rest,
                    self.add(credit, currency, -amount_minor, position, line + 1),
                    rest,
                )
                line += 2
        return "".join(parts)

    def add(self, account: str, currency: str, amount_minor: int, position: int, line: int) -> str:
        """Adds a posting to an account, and returns the columns that are the posting's own."""
        key = (account, currency)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = AccountRow(account, currency, 0, position)
        self.changed[key] = row
        if row.position > position:
            self.late.add(account)
        else:
            row.position = position
        row.balance_minor += amount_minor
        return f"{position}\t{line}\t{account}\t{currency}\t{amount_minor}\t{row.balance_minor}"


def _bet(row: RoundRow, event: StakeLost | WinPaid | SettlementReversed, position: int) -> str:
    """What a bet was on when it was settled."""
    if isinstance(event, SettlementReversed):
        position = row.corrections.get(event.correction_id, position)
    for since, bet in reversed(row.bets.get(event.bet_id, ())):
        if since < position:
            return bet
    raise LookupError(f"bet {event.bet_id} of round {row.round_id} was never placed")


@lru_cache(maxsize=65_536)
def _text(value: str) -> str:
    """A text as a row has it; raises ValueError where it would be another row or cell."""
    if not value or any(special in value for special in "\t\n\r\\"):
        raise ValueError(f"{value!r} is no id")
    return value


def _failed(recorded: Recorded, why: Exception | str) -> ProjectionFailed:
    reason = f"{recorded.event.TOPIC} of {recorded.event.originator_id}: {why}"
    return ProjectionFailed(Journal.name, recorded.position, reason)
