"""The gaming days of an export: which it is asked for, and in whose books a moment falls."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import NamedTuple

from domain.gaming_day import Bounds, GamingCalendar
from domain.site import SiteEvent
from projections.gaming_days import DaySetting, calendar_after, with_setting


@dataclass(frozen=True, slots=True)
class Days:
    """The gaming days from one to another, or all of them."""

    first: date = date.min
    last: date = date.max

    def __contains__(self, day: date) -> bool:
        return self.first <= day <= self.last

    @property
    def is_all(self) -> bool:
        """Whether no day is left out."""
        return (self.first, self.last) == (date.min, date.max)

    def named(self) -> list[date]:
        """The days one by one, where they are few enough to name; else none."""
        count = (self.last - self.first).days + 1
        return [self.first + timedelta(each) for each in range(count)] if count <= 366 else []


class DaysOf(NamedTuple):
    """The day in whose books a moment falls, and the day that it lies in itself."""

    day: date
    own_day: date


class Books:
    """Says of each moment in the log in whose books it falls, as the log goes on."""

    def __init__(self) -> None:
        self.settings: list[DaySetting] = []
        self._calendar = GamingCalendar()
        self._own_day = date.min
        self._bounds: Bounds | None = None

    def take(self, position: int, event: SiteEvent) -> None:
        """Takes in how the site changes its days, or closes one."""
        setting = DaySetting.of(position, event)
        self.settings.append(setting)
        self._calendar = with_setting(self._calendar, setting)
        self._bounds = None

    def days_of(self, at: datetime) -> DaysOf:
        """The days of a moment that is recorded now."""
        # Most moments lie in the same day as the one before.
        if self._bounds is None or not self._bounds.start <= at < self._bounds.end:
            self._own_day = self._calendar.day_of(at)
            self._bounds = self._calendar.bounds(self._own_day)
        closed = self._calendar.closed
        if closed is None or self._own_day > closed:
            return DaysOf(self._own_day, self._own_day)
        return DaysOf(self._calendar.booked_on(at), self._own_day)

    def booked_on(self, at: datetime, *, position: int) -> date:
        """The day in whose books a moment falls that was recorded at an earlier position."""
        before = [setting for setting in self.settings if setting.position < position]
        return calendar_after(before).booked_on(at)
