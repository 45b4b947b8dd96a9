"""The site: when its gaming day starts."""

from datetime import datetime, timedelta
from typing import ClassVar, Self

from msgspec import Struct
from msgspec.structs import replace

from domain.errors import Refused
from domain.event import NEVER, DomainEvent, Stamp

SITE_ID = "site"
GRACE = timedelta(minutes=5)
BACKDATING = timedelta(days=7)


class GamingDaySet(DomainEvent):
    """From now on a gaming day starts at `starts_at`, local time in `zone`."""

    TOPIC: ClassVar[str] = "site.gaming_day_set"
    zone: str
    starts_at: str


class Site(Struct, frozen=True):
    """The place that the ledger is kept for."""

    id: str = SITE_ID
    version: int = 0
    at: datetime = NEVER
    zone: str = "UTC"
    starts_at: str = "06:00"

    def set_gaming_day(self, zone: str, *, starts_at: str, stamp: Stamp) -> GamingDaySet:
        """Sets when the gaming day starts."""
        return GamingDaySet(*stamp.on(self.id, self.version + 1), zone=zone, starts_at=starts_at)

    def apply(self, event: GamingDaySet) -> Self:
        return replace(
            self,
            version=event.originator_version,
            at=event.at,
            zone=event.zone,
            starts_at=event.starts_at,
        )


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
