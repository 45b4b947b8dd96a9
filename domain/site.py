"""The site: when its gaming day starts, and up to which day its books are closed."""

from datetime import date, datetime, timedelta
from typing import ClassVar, Self, assert_never

from msgspec import Struct
from msgspec.structs import replace

from domain.errors import Refused
from domain.event import NEVER, DomainEvent, Stamp
from domain.gaming_day import DEFAULT_START, DEFAULT_ZONE, GamingCalendar

SITE_ID = "site"
GRACE = timedelta(minutes=5)
BACKDATING = timedelta(days=7)


class GamingDaySet(DomainEvent):
    """From now on a gaming day starts at `starts_at`, local time in `zone`."""

    TOPIC: ClassVar[str] = "site.gaming_day_set"
    zone: str
    starts_at: str


class GamingDayClosed(DomainEvent):
    """A gaming day that is over was closed, and every earlier one with it.

    `day` is its date as in 2026-01-31. What is recorded from now on and
    happened on a closed day falls into the first day after it.
    """

    TOPIC: ClassVar[str] = "site.gaming_day_closed"
    day: str


SiteEvent = GamingDaySet | GamingDayClosed


class Site(Struct, frozen=True, gc=False):
    """The place that the ledger is kept for."""

    id: str = SITE_ID
    version: int = 0
    at: datetime = NEVER
    zone: str = DEFAULT_ZONE
    starts_at: str = DEFAULT_START
    calendar: GamingCalendar = GamingCalendar()

    def set_gaming_day(self, zone: str, *, starts_at: str, stamp: Stamp) -> GamingDaySet:
        """Sets when the gaming day starts."""
        return GamingDaySet(*stamp.on(self.id, self.version + 1), zone=zone, starts_at=starts_at)

    def close_day(self, day: date, *, stamp: Stamp) -> GamingDayClosed:
        """Closes a gaming day; refuses one that is closed, and one that is not over."""
        closed = self.calendar.closed
        if closed is not None and day <= closed:
            raise Refused("day_closed", f"gaming day {day} is closed", field="day")
        end = self.calendar.bounds(day).end
        if stamp.at < end:
            raise Refused(
                "time_out_of_bounds",
                f"gaming day {day} is not over before {end.isoformat()}",
                field="day",
            )
        return GamingDayClosed(*stamp.on(self.id, self.version + 1), day=day.isoformat())

    def apply(self, event: SiteEvent) -> Self:
        site = replace(self, version=event.originator_version, at=event.at)
        match event:
            case GamingDaySet():
                return replace(
                    site,
                    zone=event.zone,
                    starts_at=event.starts_at,
                    calendar=self.calendar.change(
                        event.zone, starts_at=event.starts_at, since=event.at
                    ),
                )
            case GamingDayClosed():
                return replace(site, calendar=self.calendar.close(date.fromisoformat(event.day)))
            case _:
                assert_never(event)


def check_clock(at: datetime, *, now: datetime) -> None:
    """Refuses a time in the future (five minutes of grace) or more than seven days ago."""
    if at > now + GRACE:
        raise Refused("time_out_of_bounds", f"at {at.isoformat()} lies in the future", field="at")
    if at < now - BACKDATING:
        raise Refused(
            "time_out_of_bounds",
            f"at {at.isoformat()} lies more than {BACKDATING.days} days back",
            field="at",
        )
