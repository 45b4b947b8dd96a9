"""The site's gaming day, and the times that it allows."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from domain.errors import Refused
from domain.event import Stamp, check_order
from domain.site import GamingDayClosed, GamingDaySet, Site, check_clock

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
INSTANT = timedelta(microseconds=1)


def test_a_gaming_day_starts_at_six_utc_where_nothing_is_set():
    assert (Site().zone, Site().starts_at) == ("UTC", "06:00")


def test_the_gaming_day_can_be_set_again(stamp):
    site = Site()
    for version, zone in enumerate(("Asia/Macau", "Europe/Monaco"), 1):
        event = site.set_gaming_day(zone, starts_at="05:30", stamp=stamp)
        assert event == GamingDaySet(*stamp.on("site", version), zone=zone, starts_at="05:30")
        site = site.apply(event)
    assert (site.zone, site.starts_at, site.version) == ("Europe/Monaco", "05:30", 2)


DAY = date(2026, 3, 3)
OVER = datetime(2026, 3, 4, 6, 0, tzinfo=UTC)


def at(time):
    return Stamp(time, "manager", "key-1")


def closing(day, *, site, time=NOW):
    return site.close_day(day, stamp=at(time))


def test_a_gaming_day_that_is_over_is_closed_from_the_moment_it_ends():
    event = closing(DAY, site=Site(), time=OVER)
    assert event == GamingDayClosed(*at(OVER).on("site", 1), day="2026-03-03")
    assert Site().apply(event).calendar.closed == DAY


def test_a_gaming_day_that_is_not_over_cannot_be_closed():
    with pytest.raises(Refused, match="not over before 2026-03-04T06:00:00") as refused:
        closing(DAY, site=Site(), time=OVER - INSTANT)
    assert (refused.value.code, refused.value.field) == ("time_out_of_bounds", "day")


@pytest.mark.parametrize("day", [DAY, DAY - timedelta(days=1)])
def test_a_closed_day_and_every_earlier_one_cannot_be_closed_again(day):
    site = Site().apply(closing(DAY, site=Site()))
    with pytest.raises(Refused) as refused:
        closing(day, site=site)
    assert (refused.value.code, refused.value.field) == ("day_closed", "day")


def test_a_day_ends_by_the_clock_of_the_site():
    site = Site()
    stamp = at(OVER - timedelta(days=30))
    site = site.apply(site.set_gaming_day("Asia/Macau", starts_at="06:00", stamp=stamp))
    in_macau = OVER - timedelta(hours=8)
    assert closing(DAY, site=site, time=in_macau).day == "2026-03-03"
    with pytest.raises(Refused, match="not over"):
        closing(DAY, site=site, time=in_macau - INSTANT)


@pytest.mark.parametrize(
    "at",
    [
        NOW,
        NOW + timedelta(minutes=5),
        NOW - timedelta(days=7),
        (NOW + timedelta(minutes=5)).astimezone(timezone(timedelta(hours=7))),
    ],
)
def test_five_minutes_ahead_and_seven_days_back_are_allowed(at):
    check_clock(at, now=NOW)


@pytest.mark.parametrize(
    "at", [NOW + timedelta(minutes=5) + INSTANT, NOW - timedelta(days=7) - INSTANT]
)
def test_a_time_in_the_future_or_too_far_back_is_refused(at):
    with pytest.raises(Refused) as refused:
        check_clock(at, now=NOW)
    assert (refused.value.code, refused.value.field) == ("time_out_of_bounds", "at")


def test_a_time_does_not_go_backwards_within_a_stream(stamp):
    check_order(stamp.at, latest=stamp.at)
    check_order(stamp.at, latest=stamp.at - INSTANT)
    with pytest.raises(Refused) as refused:
        check_order(stamp.at - INSTANT, latest=stamp.at)
    assert (refused.value.code, refused.value.field) == ("time_out_of_bounds", "at")
