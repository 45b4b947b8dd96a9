"""The report on a gaming day: what was played, and what the odds would have had it come to.

What the house has won is set beside its theoretical win, turnover times the
house edge of each bet. How far apart they are is told in standard deviations
too: the bets of one round hang together, so the variance is taken round by
round from what was staked on each kind, and summed over the rounds.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from fractions import Fraction
from math import isqrt
from typing import Any

from psycopg import Connection
from psycopg.rows import tuple_row

from domain.bets import BetKind
from domain.gaming_day import GamingCalendar
from domain.probability import covariance, house_edge
from domain.rules import Rules
from projections.days import calendar
from projections.projection import reading


@dataclass(frozen=True, slots=True)
class _Played:
    """The play of an account on a kind of bet."""

    own_day: date
    table_id: str
    shoe_id: str
    currency: str
    rules_version: int
    account_id: str
    bet: str
    turnover_minor: int
    win_minor: int
    commission_minor: int
    bets: int
    in_play_minor: int
    is_earlier: bool


@dataclass(frozen=True, slots=True)
class _Paired:
    """Two kinds of bets in the same rounds, or one and itself."""

    table_id: str
    shoe_id: str
    currency: str
    rules_version: int
    bet: str
    other_bet: str
    rounds: int
    product_minor: int


@dataclass(frozen=True, slots=True)
class _Counted:
    """The rounds of a shoe."""

    own_day: date
    table_id: str
    shoe_id: str
    currency: str
    rounds: int
    void_rounds: int


_PLAYED = """
    SELECT own_day, table_id, shoe_id, currency, rules_version, account_id, bet,
           turnover_minor, win_minor, commission_minor, bets, in_play_minor,
           false AS is_earlier
      FROM projection.day_play
     WHERE day = %(day)s AND (%(table)s::text IS NULL OR table_id = %(table)s)
    UNION ALL
    SELECT %(day)s::date, table_id, shoe_id, currency, rules_version, account_id, bet,
           0, 0, 0, 0, sum(in_play_minor), true
      FROM projection.day_play
     WHERE day < %(day)s AND (%(table)s::text IS NULL OR table_id = %(table)s)
     GROUP BY table_id, shoe_id, currency, rules_version, account_id, bet
    HAVING sum(in_play_minor) <> 0
"""
_PAIRED = """
    SELECT table_id, shoe_id, currency, rules_version, bet, other_bet,
           sum(rounds)::bigint AS rounds, sum(product_minor) AS product_minor
      FROM projection.day_pairs
     WHERE day = %(day)s AND (%(table)s::text IS NULL OR table_id = %(table)s)
     GROUP BY table_id, shoe_id, currency, rules_version, bet, other_bet
"""
_COUNTED = """
    SELECT own_day, table_id, shoe_id, currency,
           sum(rounds)::bigint AS rounds, sum(void_rounds)::bigint AS void_rounds
      FROM projection.day_counts
     WHERE day = %(day)s AND (%(table)s::text IS NULL OR table_id = %(table)s)
     GROUP BY own_day, table_id, shoe_id, currency
"""
_RULES = "SELECT table_id, rules_version, rules::text FROM projection.day_rules"


@dataclass(slots=True)
class Line:
    """What was played by one key in one currency; amounts in minor units.

    `win_minor` is the house's before commission. The theoretical win and the
    variance are exact and become whole only when they are shown; of an account,
    whose bets are only some of a round's, and of what is late no variance is kept.
    """

    key: str
    currency: str
    turnover_minor: int = 0
    win_minor: int = 0
    commission_minor: int = 0
    bets: int = 0
    rounds: int = 0
    void_rounds: int = 0
    in_play_start_minor: int = 0
    in_play_end_minor: int = 0
    theoretical: Fraction = field(default_factory=Fraction)
    variance: Fraction | None = None

    def to_json(self) -> dict[str, Any]:
        """The line of a report: `hold_percent` and `deviations` are decimals in a text, or null.

        `deviation_minor` is how much more than in theory the house has won,
        `deviations` the same in standard deviations.
        """
        kept_minor = self.win_minor + self.commission_minor
        theoretical_minor = round(self.theoretical)
        return {
            "key": self.key,
            "currency": self.currency,
            "turnover_minor": self.turnover_minor,
            "win_minor": self.win_minor,
            "commission_minor": self.commission_minor,
            "hold_percent": _percent(kept_minor, self.turnover_minor),
            "bets": self.bets,
            "rounds": self.rounds,
            "void_rounds": self.void_rounds,
            "in_play_start_minor": self.in_play_start_minor,
            "in_play_end_minor": self.in_play_end_minor,
            "theoretical_minor": theoretical_minor,
            "deviation_minor": kept_minor - theoretical_minor,
            "standard_deviation_minor": _deviation(self.variance),
            "deviations": _deviations(kept_minor - self.theoretical, self.variance),
        }


@dataclass(frozen=True, slots=True)
class DayReport:
    """A gaming day, in all and by table, shoe, kind of bet and account.

    `late` is what was booked on it of earlier days that were closed, by their
    dates, and is contained in the rest.
    """

    day: date
    start: str
    end: str
    is_closed: bool
    table: str | None
    totals: tuple[Line, ...]
    tables: tuple[Line, ...]
    shoes: tuple[Line, ...]
    bets: tuple[Line, ...]
    accounts: tuple[Line, ...]
    late: tuple[Line, ...]

    @property
    def is_played(self) -> bool:
        """Whether anything was played, or called off, on the day."""
        return any(line.bets or line.rounds or line.void_rounds for line in self.tables)

    def to_json(self) -> dict[str, Any]:
        """The answer of `punto day --json`: of a closed day the same for ever."""
        parts = ("totals", "tables", "shoes", "bets", "accounts", "late")
        return {
            "day": self.day.isoformat(),
            "from": self.start,
            "to": self.end,
            "closed": self.is_closed,
            "table": self.table,
            "played": self.is_played,
            **{part: [line.to_json() for line in getattr(self, part)] for part in parts},
        }


def day_calendar(connection: Connection[Any]) -> GamingCalendar:
    """The site's gaming days as of the position of the read model."""
    return calendar(connection.cursor())


def day_report(connection: Connection[Any], day: date, *, table: str | None = None) -> DayReport:
    """The report on a gaming day, of all tables or of one."""
    days = day_calendar(connection)
    bounds = days.bounds(day)
    wanted = {"day": day, "table": table}
    lines = _Lines(_Odds(connection))
    with reading(connection, _Played) as played:
        lines.add_played(played.execute(_PLAYED, wanted), day)
    with reading(connection, _Paired) as paired:
        lines.add_paired(paired.execute(_PAIRED, wanted))
    with reading(connection, _Counted) as counted:
        lines.add_counted(counted.execute(_COUNTED, wanted), day)
    return DayReport(
        day=day,
        start=_utc(bounds.start),
        end=_utc(bounds.end),
        is_closed=days.closed is not None and day <= days.closed,
        table=table,
        **{part: lines.of(part) for part in lines.PARTS},
    )


class _Odds:
    """What the rules of each table promise the house, looked up once for equal rules."""

    def __init__(self, connection: Connection[Any]) -> None:
        with connection.cursor(row_factory=tuple_row) as cursor:
            self._texts: dict[tuple[str, int], str] = {
                (table_id, version): text for table_id, version, text in cursor.execute(_RULES)
            }
        self._rules: dict[str, Rules] = {}
        self._edges: dict[tuple[str, str], Fraction] = {}
        self._covariances: dict[tuple[str, str, str], Fraction] = {}

    def edge(self, table_id: str, rules_version: int, bet: str) -> Fraction:
        """The house edge of a kind of bet at a table."""
        text = self._texts[table_id, rules_version]
        if (text, bet) not in self._edges:
            self._edges[text, bet] = house_edge(BetKind(bet), self._of(text))
        return self._edges[text, bet]

    def covariance(self, table_id: str, rules_version: int, bet: str, other: str) -> Fraction:
        """How two kinds of bets in one round at a table go together."""
        text = self._texts[table_id, rules_version]
        key = (text, bet, other)
        if key not in self._covariances:
            kinds = BetKind(bet), BetKind(other)
            self._covariances[key] = covariance(*kinds, self._of(text))
        return self._covariances[key]

    def _of(self, text: str) -> Rules:
        if text not in self._rules:
            self._rules[text] = Rules.model_validate_json(text)
        return self._rules[text]


class _Lines:
    """The lines of a report, each part by its keys."""

    PARTS = ("totals", "tables", "shoes", "bets", "accounts", "late")

    def __init__(self, odds: _Odds) -> None:
        self._odds = odds
        self._lines: dict[str, dict[tuple[str, str], Line]] = defaultdict(dict)

    def of(self, part: str) -> tuple[Line, ...]:
        """The lines of one part, in the order of their keys."""
        lines = self._lines[part]
        return tuple(lines[key] for key in sorted(lines))

    def add_played(self, rows: Iterable[_Played], day: date) -> None:
        for row in rows:
            edge = self._odds.edge(row.table_id, row.rules_version, row.bet)
            keys = {
                "totals": "",
                "tables": row.table_id,
                "shoes": row.shoe_id,
                "bets": row.bet,
                "accounts": row.account_id,
            }
            if row.own_day != day:
                keys["late"] = row.own_day.isoformat()
            for part, key in keys.items():
                line = self._line(part, key, row.currency)
                line.turnover_minor += row.turnover_minor
                line.win_minor += row.win_minor
                line.commission_minor += row.commission_minor
                line.bets += row.bets
                line.in_play_start_minor += row.in_play_minor if row.is_earlier else 0
                line.in_play_end_minor += row.in_play_minor
                line.theoretical += row.turnover_minor * edge

    def add_paired(self, rows: Iterable[_Paired]) -> None:
        for row in rows:
            is_one_kind = row.bet == row.other_bet
            covariance = self._odds.covariance(
                row.table_id, row.rules_version, row.bet, row.other_bet
            )
            # Of two different kinds each stands beside the other.
            variance = row.product_minor * covariance * (1 if is_one_kind else 2)
            keys = {"totals": "", "tables": row.table_id, "shoes": row.shoe_id}
            if is_one_kind:
                keys["bets"] = row.bet
                self._line("bets", row.bet, row.currency).rounds += row.rounds
            for part, key in keys.items():
                line = self._line(part, key, row.currency)
                assert line.variance is not None
                line.variance += variance

    def add_counted(self, rows: Iterable[_Counted], day: date) -> None:
        for row in rows:
            keys = {"totals": "", "tables": row.table_id, "shoes": row.shoe_id}
            if row.own_day != day:
                keys["late"] = row.own_day.isoformat()
            for part, key in keys.items():
                line = self._line(part, key, row.currency)
                line.rounds += row.rounds
                line.void_rounds += row.void_rounds

    def _line(self, part: str, key: str, currency: str) -> Line:
        lines = self._lines[part]
        if (key, currency) not in lines:
            variance = None if part in ("accounts", "late") else Fraction()
            lines[key, currency] = Line(key, currency, variance=variance)
        return lines[key, currency]


def _utc(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _percent(part_minor: int, whole_minor: int) -> str | None:
    return _decimal(Fraction(100 * part_minor, whole_minor)) if whole_minor else None


def _root(square: Fraction) -> int:
    """The square root, rounded to the nearest whole number."""
    return (isqrt(int(4 * square)) + 1) // 2


def _deviation(variance: Fraction | None) -> int | None:
    """The standard deviation; none on a day that took back more than was staked on it."""
    return None if variance is None or variance < 0 else _root(variance)


def _deviations(difference: Fraction, variance: Fraction | None) -> str | None:
    """A difference in standard deviations; None where nothing can deviate."""
    if variance is None or variance <= 0:
        return None
    hundredths = _root(10_000 * difference * difference / variance)
    return _decimal(Fraction(hundredths if difference >= 0 else -hundredths, 100))


def _decimal(number: Fraction) -> str:
    """A number with two decimals, rounded to the nearest, a half to the even one."""
    hundredths = round(number * 100)
    whole, rest = divmod(abs(hundredths), 100)
    return f"{'-' if hundredths < 0 else ''}{whole}.{rest:02}"
