"""The gaming day of a moment: what the books and the reports call a day.

A gaming day starts when the site's clock first shows the day's start time on
that date, summer time included, and lasts until the next one starts. Days
follow each other without a gap: where the clock is put back over the start
time the day starts once, at the first showing; where the clock jumps over it
the day starts at the jump.
"""

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple, Self
from zoneinfo import ZoneInfo

DEFAULT_ZONE = "UTC"
DEFAULT_START = "06:00"

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_EARLIEST = datetime(2, 1, 1, tzinfo=UTC)
_LATEST = datetime(9998, 12, 1, tzinfo=UTC)


class Bounds(NamedTuple):
    """A gaming day runs from `start` up to and without `end`, both in UTC.

    They are the same where a change of the site's clock left nothing of the day.
    """

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class _Period:
    """A zone and a start time, in force from `since` on; no day before `first` is any more."""

    since: datetime
    zone: str
    starts_at: str
    first: date

    def day_of(self, at: datetime) -> date:
        local_date = at.astimezone(ZoneInfo(self.zone)).date()
        for day in (local_date + _DAY, local_date):
            if self.start_of(day) <= at:
                return max(day, self.first)
        return max(local_date - _DAY, self.first)

    def start_of(self, day: date) -> datetime:
        return _clock_shows(day, self.starts_at, self.zone)


_SINCE_EVER = _Period(_EARLIEST, DEFAULT_ZONE, DEFAULT_START, _EARLIEST.date())


@dataclass(frozen=True, slots=True)
class GamingCalendar:
    """The site's gaming days, by the settings of their time, and up to which they are closed.

    A change of the settings never brings an earlier day back: the day that was
    open goes on until the new settings start a later one.
    """

    periods: tuple[_Period, ...] = (_SINCE_EVER,)
    closed: date | None = None

    def day_of(self, at: datetime) -> date:
        """The gaming day that a moment lies in.

        A moment in the first or the last year of the calendar counts as the
        nearest one that has whole days around it.
        """
        at = min(max(at, _EARLIEST), _LATEST)
        return self._period(at).day_of(at)

    def booked_on(self, at: datetime) -> date:
        """The day in whose books a movement falls that is recorded now and happened at `at`.

        Its own, or the first that is not closed.
        """
        day = self.day_of(at)
        if self.closed is None or day > self.closed:
            return day
        return self.closed + _DAY

    def bounds(self, day: date) -> Bounds:
        """When a gaming day starts and ends."""
        return Bounds(self._start_of(day), self._start_of(day + _DAY))

    def change(self, zone: str, *, starts_at: str, since: datetime) -> Self:
        """The calendar after the settings have changed, from `since` on."""
        since = min(max(since, _EARLIEST), _LATEST)
        period = _Period(since, zone, starts_at, self.day_of(since))
        kept = tuple(each for each in self.periods if each.since < since)
        return replace(self, periods=(*kept, period))

    def close(self, day: date) -> Self:
        """The calendar after a day, and with it every earlier one, was closed."""
        return replace(self, closed=day if self.closed is None else max(day, self.closed))

    def _period(self, at: datetime) -> _Period:
        for period in reversed(self.periods):
            if period.since <= at:
                return period
        return self.periods[0]

    def _start_of(self, day: date) -> datetime:
        """The first moment that lies in this day or a later one."""
        for period, following in zip(self.periods, (*self.periods[1:], None), strict=True):
            start = period.since if day <= period.first else period.start_of(day)
            start = max(start, period.since)
            if following is None or start < following.since:
                return start
        raise AssertionError("the last settings hold for ever")


@lru_cache(maxsize=4096)
def _clock_shows(day: date, starts_at: str, zone: str) -> datetime:
    """The first moment, in UTC, at which a zone's clock shows this time of this day or more."""
    wanted = datetime.combine(day, time.fromisoformat(starts_at))
    at = wanted.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    if _shown(at, zone) == wanted:
        return at
    # The clock jumps over it: somewhere between the two readings of what it never shows.
    before = wanted.replace(tzinfo=ZoneInfo(zone), fold=1).astimezone(UTC)
    while at - before > _SECOND:
        middle = before + (at - before) // _SECOND // 2 * _SECOND
        if _shown(middle, zone) < wanted:
            before = middle
        else:
            at = middle
    return at


def _shown(at: datetime, zone: str) -> datetime:
    return at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
