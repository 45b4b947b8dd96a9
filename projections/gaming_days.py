"""The site's gaming days as a read model keeps them: each setting and each close is a row."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime

from domain.gaming_day import GamingCalendar
from domain.site import GamingDaySet, SiteEvent


@dataclass(slots=True)
class DaySetting:
    """The gaming day was set to start at a time of a zone, or the days up to one were closed."""

    position: int
    since: datetime
    zone: str | None
    starts_at: str | None
    closed: date | None

    @classmethod
    def of(cls, position: int, event: SiteEvent) -> "DaySetting":
        """The row of an event."""
        if isinstance(event, GamingDaySet):
            return cls(position, event.at, event.zone, event.starts_at, None)
        return cls(position, event.at, None, None, date.fromisoformat(event.day))


def calendar_after(settings: Iterable[DaySetting]) -> GamingCalendar:
    """The gaming days after some settings, in the order of their positions."""
    calendar = GamingCalendar()
    for setting in settings:
        calendar = with_setting(calendar, setting)
    return calendar


def with_setting(calendar: GamingCalendar, setting: DaySetting) -> GamingCalendar:
    """The gaming days after one more setting."""
    if setting.closed is not None:
        return calendar.close(setting.closed)
    assert setting.zone is not None
    assert setting.starts_at is not None
    return calendar.change(setting.zone, starts_at=setting.starts_at, since=setting.since)
