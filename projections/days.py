"""The gaming days: what was staked, won and kept on each, and what was left in play.

The fold adds to the rows and never looks at them, so a page is written with one
statement, whatever is in them.
"""

from collections.abc import Sequence
from typing import Any, cast

from msgspec import Raw
from psycopg import Cursor

from domain.event import Recorded
from domain.gaming_day import GamingCalendar
from domain.round import RoundEvent
from domain.site import SiteEvent
from projections.day_measures import DayMeasures, RoundRow, Wager
from projections.gaming_days import DaySetting, calendar_after
from projections.projection import Projection, ProjectionFailed, document, reading, topics_of

_Wanted = RoundEvent | SiteEvent


class Days(Projection):
    """The measures of every gaming day, and what the fold must know of rounds and of the site."""

    name = "days"
    version = 1
    tables = ("day_play", "day_pairs", "day_counts", "day_rounds", "day_rules", "day_settings")
    topics = topics_of(_Wanted)
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
                measures.take(position, cast(_Wanted, event))
            except (LookupError, ValueError) as error:
                reason = f"{event.TOPIC} of {event.originator_id}: {error}"
                raise ProjectionFailed(self.name, position, reason) from error
        _write(cursor, measures)


_SELECT_ROUNDS = """
    SELECT round_id, table_id, shoe_id, currency, rules_version, state, bets
      FROM day_rounds
     WHERE round_id = ANY (%(ids)b::text[])
"""
_SELECT_SETTINGS = (
    "SELECT position, since, zone, starts_at, closed FROM {}day_settings ORDER BY position"
)
_WRITE = """
    WITH play AS (
        INSERT INTO day_play
        SELECT * FROM json_populate_recordset(NULL::day_play, %(play)s)
        ON CONFLICT (day, own_day, table_id, shoe_id, currency, rules_version, account_id, bet)
        DO UPDATE SET
            turnover_minor = day_play.turnover_minor + excluded.turnover_minor,
            win_minor = day_play.win_minor + excluded.win_minor,
            commission_minor = day_play.commission_minor + excluded.commission_minor,
            bets = day_play.bets + excluded.bets,
            won_minor = day_play.won_minor + excluded.won_minor,
            won_bets = day_play.won_bets + excluded.won_bets,
            in_play_minor = day_play.in_play_minor + excluded.in_play_minor
    ), pairs AS (
        INSERT INTO day_pairs
        SELECT * FROM json_populate_recordset(NULL::day_pairs, %(pairs)s)
        ON CONFLICT (day, own_day, table_id, shoe_id, currency, rules_version, bet, other_bet)
        DO UPDATE SET
            rounds = day_pairs.rounds + excluded.rounds,
            product_minor = day_pairs.product_minor + excluded.product_minor
    ), counts AS (
        INSERT INTO day_counts
        SELECT * FROM json_populate_recordset(NULL::day_counts, %(counts)s)
        ON CONFLICT (day, own_day, table_id, shoe_id, currency, rules_version)
        DO UPDATE SET
            rounds = day_counts.rounds + excluded.rounds,
            void_rounds = day_counts.void_rounds + excluded.void_rounds
    ), rules AS (
        INSERT INTO day_rules
        SELECT * FROM json_populate_recordset(NULL::day_rules, %(rules)s)
        ON CONFLICT (table_id, rules_version) DO NOTHING
    ), settings AS (
        INSERT INTO day_settings
        SELECT * FROM json_populate_recordset(NULL::day_settings, %(settings)s)
    )
    INSERT INTO day_rounds
    SELECT * FROM json_populate_recordset(NULL::day_rounds, %(rounds)s)
    ON CONFLICT (round_id) DO UPDATE SET state = excluded.state, bets = excluded.bets
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
    rules = [
        {
            "table_id": table_id,
            "rules_version": rules_version,
            "rules": Raw(rules.as_json),
        }
        for (table_id, rules_version), rules in measures.rules.items()
    ]
    changes = {
        "play": document(measures.play.values()),
        "pairs": document(measures.pairs.values()),
        "counts": document(measures.counts.values()),
        "rules": document(rules),
        "settings": document(measures.settings),
        "rounds": document(measures.rounds.values()),
    }
    cursor.execute(_WRITE, changes)


def calendar(cursor: Cursor[Any], *, schema: str = "projection.") -> GamingCalendar:
    """The site's gaming days as far as the events are folded."""
    with reading(cursor.connection, DaySetting) as settings:
        return calendar_after(settings.execute(_SELECT_SETTINGS.format(schema).encode()))
