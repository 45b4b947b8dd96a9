"""The gaming days: what was staked, won and kept on each, and what was left in play.

The fold adds to the rows and never looks at them, so a page costs a statement a
table, whatever is in them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, cast

from psycopg import Cursor

from domain.event import Recorded
from domain.gaming_day import GamingCalendar
from domain.round import RoundEvent
from domain.site import SiteEvent
from projections.day_measures import Count, DayMeasures, Pair, Place, Play, RoundRow, Wager
from projections.gaming_days import DaySetting, calendar_after
from projections.projection import Projection, ProjectionFailed, reading, topics_of


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
        measures = DayMeasures(_known_rounds(cursor, events), calendar(cursor, schema=""))
        for position, event in events:
            try:
                measures.take(position, cast(RoundEvent | SiteEvent, event))
            except (LookupError, ValueError) as error:
                reason = f"{event.TOPIC} of {event.originator_id}: {error}"
                raise ProjectionFailed(self.name, position, reason) from error
        _write(cursor, measures)


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


def _known_rounds(cursor: Cursor[Any], events: Sequence[Recorded]) -> dict[str, RoundRow]:
    ids = {event.originator_id.removeprefix("round:") for _, event in events}
    with reading(cursor.connection, RoundRow) as found:
        found.execute(_SELECT_ROUNDS, {"ids": list(ids)})
        rows = {row.round_id: row for row in found}
    for row in rows.values():
        row.bets = {bet_id: Wager(*stored) for bet_id, stored in row.bets.items()}
    return rows


def _write(cursor: Cursor[Any], measures: DayMeasures) -> None:
    """Adds the changes to the tables."""
    play = [(*place, *rest, *_values(each)) for (place, *rest), each in measures.play.items()]
    pairs = [(*place, *rest, *_values(each)) for (place, *rest), each in measures.pairs.items()]
    counts = [(*place, *_values(each)) for place, each in measures.counts.items()]
    rounds = [
        (*(getattr(row, name) for name in _COLUMNS[RoundRow][:-1]), _stored(row.bets))
        for row in measures.rounds.values()
    ]
    place = Place._fields
    _execute(cursor, _ADD_PLAY, (*place, "account_id", "bet", *_COLUMNS[Play]), play)
    _execute(cursor, _ADD_PAIRS, (*place, "bet", "other_bet", *_COLUMNS[Pair]), pairs)
    _execute(cursor, _ADD_COUNTS, (*place, *_COLUMNS[Count]), counts)
    _execute(cursor, _UPSERT_ROUNDS, _COLUMNS[RoundRow], rounds)
    for (table_id, rules_version), rules in measures.rules.items():
        named = {"table_id": table_id, "rules_version": rules_version}
        document = rules.model_dump(mode="json", exclude_none=True)
        cursor.execute(_ADD_RULES, {**named, "rules": document})
    for setting in measures.settings:
        cursor.execute(_ADD_SETTING, asdict(setting))


def _execute(
    cursor: Cursor[Any], statement: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Executes a statement that takes an array for each column."""
    if rows:
        columns = map(list, zip(*rows, strict=True))
        cursor.execute(statement, dict(zip(names, columns, strict=True)))


def calendar(cursor: Cursor[Any], *, schema: str = "projection.") -> GamingCalendar:
    """The site's gaming days as far as the events are folded."""
    with reading(cursor.connection, DaySetting) as settings:
        return calendar_after(settings.execute(_SELECT_SETTINGS.format(schema).encode()))


def _stored(bets: Mapping[str, Wager]) -> dict[str, list[Any]]:
    return {bet_id: _values(wager) for bet_id, wager in bets.items()}


def _values(row: Any) -> list[Any]:
    """A row's columns; the library's `astuple` copies deeply, which takes ten times as long."""
    return [getattr(row, name) for name in _COLUMNS[type(row)]]


_COLUMNS: dict[type, tuple[str, ...]] = {
    row_type: tuple(each.name for each in fields(row_type))
    for row_type in (Play, Pair, Count, Wager, RoundRow)
}
