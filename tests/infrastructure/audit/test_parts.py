"""A ledger that is audited in parts has the findings of one that is audited in one go."""

import pytest
from msgspec.structs import replace

from domain.bets import BetKind
from domain.event import Recorded, Unreadable
from domain.rules import Rules
from infrastructure.audit.accounts import Tangled
from infrastructure.audit.ranges import RangeAuditor
from tests.infrastructure.audit.parts import MOST, in_one_go, in_parts, known_of
from tests.infrastructure.audit.test_tampering import CHANGES, changed, place_of

# The same lines thousands of times over, which other tests run too: measuring them takes longer.
pytestmark = pytest.mark.usefixtures("unmeasured")


@pytest.fixture
def compare(load_from):
    """Compares some ways to cut a ledger; says how many of them could not be audited in parts."""

    def compare_cuts(stored, ways):
        loaders = load_from(stored)
        whole = in_one_go(stored, loaders)
        tangled = 0
        for cuts in ways:
            try:
                assert in_parts(stored, loaders, cuts) == whole, cuts
            except Tangled:
                tangled += 1
        return tangled

    return compare_cuts


def ways_to_cut(stored):
    """Into one, two, three, five and seven ranges, wherever they end."""
    head = stored[-1].position
    return [[head * part // parts for part in range(1, parts)] for parts in (1, 2, 3, 5, 7)]


@pytest.fixture
def nights(ledger):
    """Nine shoes at three tables, where night after night each has one; corrections come late."""
    rules = [
        Rules(),
        Rules.model_validate({"commission": {"collection": "deferred"}}, strict=False),
    ]
    for table in range(3):
        ledger.open_table(f"T{table}", rules=rules[table % 2])
        ledger.open_account(f"player{table}")
    for night in range(3):
        for table in range(3):
            ledger.open_shoe(f"S{night}-{table}", f"T{table}", seed=bytes([night, table] * 16))
        for number in range(6):
            for table in range(3):
                bets = [(f"player{(table + number) % 3}", BetKind.BANKER, 10_00)]
                ledger.play(f"R{night}-{table}-{number}", f"S{night}-{table}", bets=bets)
        for table in range(3):
            ledger.close_shoe(f"S{night}-{table}")
        ledger.correct(f"C{night}", f"R{night}-0-0", is_void=True)
    return ledger.recorded


def test_several_nights_have_no_finding_wherever_they_are_cut(nights, compare, load_from):
    report = in_one_go(nights, load_from(nights))
    assert (report.rounds, report.findings) == (54, {})
    assert compare(nights, [[cut] for cut in range(0, len(nights), 7)]) == 0
    assert compare(nights, ways_to_cut(nights)) == 0


def test_faults_in_every_shoe_are_counted_however_the_ledger_is_cut(nights, compare, load_from):
    stored = [
        recorded._replace(event=replace(recorded.event, commission_minor=7))
        if recorded.event.TOPIC in ("round.bet_settled", "account.commission_charged")
        else recorded
        for recorded in nights
    ]
    report = in_one_go(stored, load_from(stored))

    assert report.rounds_with_findings > 40
    assert len([each for each in report.examples if each.code == "commission_mismatch"]) == MOST
    assert compare(stored, [[cut] for cut in range(0, len(stored), 40)]) == 0
    assert compare(stored, ways_to_cut(stored)) == 0


def test_any_event_that_is_moved_is_found_however_the_ledger_is_cut(
    nights, compare, at_new_positions
):
    events = [recorded.event for recorded in nights]
    for place in range(0, len(events), 23):
        for to in range(5, len(events), 200):
            rest = events[:place] + events[place + 1 :]
            stored = at_new_positions([*rest[:to], events[place], *rest[to:]])
            compare(stored, ways_to_cut(stored)[1:4])


def test_an_honest_ledger_can_be_cut_anywhere(evening, compare):
    assert compare(evening, [[cut] for cut in range(len(evening) + 1)]) == 0


def test_an_honest_ledger_can_be_cut_at_every_event(evening, compare):
    assert compare(evening, [range(1, len(evening))]) == 0


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_found_however_the_ledger_is_cut(change, evening, compare):
    place = place_of(evening, change.event, change.where)
    stored = changed(evening, place, **{change.field: change.value})

    compare(stored, [*ways_to_cut(stored), [place], [place + 1]])


def test_a_missing_event_is_found_however_the_ledger_is_cut(evening, compare):
    for place in range(len(evening) - 1):
        stored = evening[:place] + evening[place + 1 :]
        compare(stored, [[place], [place + 1], *ways_to_cut(stored)[1:3]])


def test_an_event_taken_out_without_a_trace_is_found_however_the_ledger_is_cut(
    evening, compare, at_new_positions
):
    for place in range(len(evening)):
        events = [recorded.event for recorded in evening]
        del events[place]
        stored = at_new_positions(events)
        compare(stored, ways_to_cut(stored)[1:4])


def test_an_unreadable_event_is_found_however_the_ledger_is_cut(evening, compare):
    for place, (position, event) in enumerate(evening):
        broken = Unreadable(position, event.originator_id, event.originator_version, "torn")
        stored = [*evening[:place], broken, *evening[place + 1 :]]
        compare(stored, [[place], *ways_to_cut(stored)[1:4]])


def test_an_event_that_comes_late_is_found_however_the_ledger_is_cut(
    evening, compare, at_new_positions
):
    events = [recorded.event for recorded in evening]
    versions = {event.originator_id: event.originator_version for event in events}
    for event in events:
        again = replace(event, originator_version=versions[event.originator_id] + 1)
        stored = at_new_positions([*events, again])
        compare(stored, [[len(events)], *ways_to_cut(stored)[1:4]])


def test_an_event_that_comes_early_is_found_however_the_ledger_is_cut(
    evening, compare, at_new_positions
):
    events = [recorded.event for recorded in evening]
    for place in range(20, len(events), 3):
        moved = [*events[:10], events[place], *events[10:place], *events[place + 1 :]]
        stored = at_new_positions(moved)
        compare(stored, [[15], *ways_to_cut(stored)[1:4]])


def test_a_ledger_whose_parts_are_not_apart_is_not_judged_in_parts(
    evening, load_from, at_new_positions
):
    events = [recorded.event for recorded in evening]
    elsewhere = [
        replace(event, originator_id="shoe:S1") if event.originator_id == "account:ann" else event
        for event in events
    ]
    stored = at_new_positions(elsewhere)

    with pytest.raises(Tangled):
        in_parts(stored, load_from(stored), [len(stored) // 2])
    assert in_one_go(stored, load_from(stored)).findings


def test_only_a_shoe_that_a_range_holds_whole_is_judged_there(evening):
    closed = next(r.position for r in evening if r.event.TOPIC == "shoe.closed")
    auditor = RangeAuditor(known_of(evening), examples_max=MOST)
    auditor.see_all(evening[: closed - 1])

    assert (auditor.part().rounds, auditor.part().closed_shoes) == (0, {})

    auditor.see_all(evening[closed - 1 : closed])

    shoe = evening[closed - 1].event.originator_id.removeprefix("shoe:")
    assert auditor.part().closed_shoes.keys() == {shoe}
    assert auditor.part().rounds > 0


def test_recorded_is_what_is_left_over(evening):
    auditor = RangeAuditor(known_of(evening), examples_max=MOST)
    auditor.see_all(evening)
    part = auditor.part()

    late = [entry for entry in evening if entry.position in set(part.leftovers)]
    assert all(isinstance(entry, Recorded) for entry in late)
    assert {entry.event.originator_id.partition(":")[0] for entry in late} <= {
        "round",
        "shoe",
        "account",
    }
