"""The site's gaming day, and the times that it allows."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from domain.errors import Refused
from domain.event import check_order
from domain.site import GamingDaySet, Site, check_clock

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
