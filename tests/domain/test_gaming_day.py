"""The gaming day: by the site's clock, through every change of it, each moment in one day."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.gaming_day import Bounds, GamingCalendar

LONG_AGO = datetime(1950, 1, 1, tzinfo=UTC)
A_DAY = timedelta(days=1)
A_MOMENT = timedelta(microseconds=1)

ZONES = st.sampled_from(
    [
        *("UTC", "America/New_York", "Europe/London", "Asia/Bangkok", "Australia/Lord_Howe"),
        *("Pacific/Apia", "Pacific/Kwajalein", "Asia/Kathmandu", "America/St_Johns", "Asia/Tehran"),
    ]
)
STARTS = st.builds("{:02}:{:02}".format, st.integers(0, 23), st.integers(0, 59))
MOMENTS = st.datetimes(
    datetime(1960, 1, 1),  # noqa: DTZ001 - the strategy adds the zone
    datetime(2040, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
CALENDARS = st.builds(
    lambda zone, starts_at: calendar(zone, starts_at), zone=ZONES, starts_at=STARTS
)


def calendar(zone, starts_at):
    return GamingCalendar().change(zone, starts_at=starts_at, since=LONG_AGO)


def utc(text):
    return datetime.fromisoformat(text).astimezone(UTC)


def test_without_settings_a_day_starts_at_six_in_utc():
    day = date(2026, 1, 2)
    assert GamingCalendar().bounds(day) == Bounds(
        utc("2026-01-02T06:00+00:00"), utc("2026-01-03T06:00+00:00")
    )
    assert GamingCalendar().day_of(utc("2026-01-03T05:59:59.999999+00:00")) == day
    assert GamingCalendar().day_of(utc("2026-01-03T06:00+00:00")) == date(2026, 1, 3)


def test_a_day_starts_by_the_clock_of_the_site():
    bounds = calendar("America/New_York", "06:00").bounds(date(2026, 1, 2))
    assert bounds.start == utc("2026-01-02T06:00-05:00")


@pytest.mark.parametrize(("day", "hours"), [("2026-03-28", 23), ("2026-10-24", 25)])
def test_a_day_with_a_change_of_summer_time_is_an_hour_shorter_or_longer(day, hours):
    start, end = calendar("Europe/London", "06:00").bounds(date.fromisoformat(day))
    assert end - start == timedelta(hours=hours)


def test_a_start_that_the_clock_shows_twice_is_the_first_showing():
    autumn = calendar("Europe/London", "01:30")
    start = utc("2026-10-25T01:30+01:00")
    assert autumn.bounds(date(2026, 10, 25)).start == start
    second_half_past_one = utc("2026-10-25T01:10+00:00")
    assert autumn.day_of(second_half_past_one) == date(2026, 10, 25)


def test_a_start_that_the_clock_jumps_over_is_the_jump():
    spring = calendar("Europe/London", "01:30")
    assert spring.bounds(date(2026, 3, 29)).start == utc("2026-03-29T02:00+01:00")


def test_a_date_that_a_zone_left_out_is_short_and_the_days_go_on():
    apia = calendar("Pacific/Apia", "06:00")
    start, end = apia.bounds(date(2011, 12, 30))
    assert (start, end) == (utc("2011-12-31T00:00+14:00"), utc("2011-12-31T06:00+14:00"))
    assert apia.day_of(start) == date(2011, 12, 30)


@given(days=CALENDARS, at=MOMENTS)
def test_every_moment_lies_within_the_bounds_of_its_day(days, at):
    start, end = days.bounds(days.day_of(at))
    assert start <= at < end


@given(days=CALENDARS, at=MOMENTS)
def test_days_follow_each_other_without_a_gap(days, at):
    day = days.day_of(at)
    assert days.bounds(day).end == days.bounds(day + A_DAY).start
    assert days.day_of(days.bounds(day).start - A_MOMENT) < day


@given(zone=ZONES, starts_at=STARTS, at=MOMENTS)
def test_a_day_starts_when_the_clock_shows_the_start_or_has_jumped_over_it(zone, starts_at, at):
    days = calendar(zone, starts_at)
    day = days.day_of(at)
    start = days.bounds(day).start
    shown = start.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    wanted = datetime.fromisoformat(f"{day}T{starts_at}")
    before = (start - A_MOMENT).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    assert before < wanted <= shown


@given(
    first=st.tuples(ZONES, STARTS),
    second=st.tuples(ZONES, STARTS),
    since=MOMENTS,
    moments=st.lists(MOMENTS, min_size=2),
)
def test_a_change_of_the_settings_never_brings_an_earlier_day_back(first, second, since, moments):
    days = calendar(*first).change(second[0], starts_at=second[1], since=since)
    seen = [days.day_of(at) for at in sorted([*moments, since, since - A_MOMENT])]
    assert seen == sorted(seen)
    for at in moments:
        start, end = days.bounds(days.day_of(at))
        assert start <= at < end


def test_what_happened_before_a_change_of_the_settings_keeps_its_day():
    changed = GamingCalendar().change("UTC", starts_at="12:00", since=utc("2026-01-05T08:00+00:00"))
    assert changed.day_of(utc("2026-01-05T07:00+00:00")) == date(2026, 1, 5)
    assert changed.day_of(utc("2026-01-05T11:00+00:00")) == date(2026, 1, 5)
    assert changed.bounds(date(2026, 1, 5)) == Bounds(
        utc("2026-01-05T06:00+00:00"), utc("2026-01-06T12:00+00:00")
    )


def test_what_comes_late_to_a_closed_day_is_booked_on_the_first_that_is_open():
    closed = GamingCalendar().close(date(2026, 1, 5)).close(date(2026, 1, 3))
    assert closed.booked_on(utc("2026-01-05T12:00+00:00")) == date(2026, 1, 6)
    assert closed.booked_on(utc("2025-12-31T12:00+00:00")) == date(2026, 1, 6)
    assert closed.booked_on(utc("2026-01-08T12:00+00:00")) == date(2026, 1, 8)
    assert closed.day_of(utc("2026-01-05T12:00+00:00")) == date(2026, 1, 5)


@pytest.mark.parametrize("year", [1, 9999])
def test_a_moment_at_either_end_of_the_calendar_has_a_day(year):
    days = calendar("Pacific/Apia", "23:59")
    start, end = days.bounds(days.day_of(datetime(year, 1, 1, tzinfo=UTC)))
    assert start < end
