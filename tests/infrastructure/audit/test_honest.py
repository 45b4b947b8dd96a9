"""A ledger that nobody tampered with has no findings."""

from domain.account import AccountEvent
from domain.bets import BetKind, Variant
from domain.money import Collection, CommissionPolicy
from domain.round import RoundEvent
from domain.rules import Rules
from domain.shoe import ShoeEvent
from infrastructure.audit.audit import Auditor, Scope, audit


def test_an_honest_ledger_has_no_finding(evening, audited):
    report = audited(evening)

    assert report.to_json() == {
        "rounds": 12,
        "rounds_with_findings": 0,
        "findings": {},
        "examples": [],
    }


def test_the_evening_holds_every_event_of_a_round_a_shoe_and_an_account(evening):
    played = {type(recorded.event) for recorded in evening}

    assert set(RoundEvent.__args__ + ShoeEvent.__args__ + AccountEvent.__args__) <= played


def test_an_honest_ledger_needs_no_round_loaded_again_but_one_corrected_late(evening):
    late = next(
        place
        for place, recorded in enumerate(evening)
        if recorded.event.originator_id == "correction:C6"
    )

    def must_not_be_asked(round_id):
        raise AssertionError(round_id)

    auditor = Auditor(must_not_be_asked, must_not_be_asked)
    for recorded in evening[:late]:
        auditor.see(recorded)

    assert auditor.finish().rounds == 12


def test_an_open_round_is_not_judged_before_its_time(ledger, audited):
    ledger.open_table("T1")
    ledger.open_account("ann")
    ledger.open_shoe("S1", "T1")
    ledger.open_round("R1", "S1")
    ledger.bet("b1", "R1", "ann", BetKind.BANKER, 10_00)
    ledger.close_betting("R1")
    for text in ("2S", "3H", "AD", "KC", "4C"):
        ledger.deal("R1", text)
        assert audited(ledger.recorded).findings == {}
    ledger.deal("R1", "5D")

    assert audited(ledger.recorded).to_json()["findings"] == {}


def test_commission_that_a_balance_does_not_cover_is_no_mismatch(ledger, audited):
    policy = CommissionPolicy(minimum_minor=1_00, collection=Collection.PER_ROUND)
    ledger.open_table("T1", rules=Rules(commission=policy))
    ledger.open_account("ann", deposit_minor=1)
    ledger.open_shoe("S1", "T1")
    ledger.play("R1", "S1", "2S 9H QD KC", bets=[("ann", BetKind.BANKER, 1)])

    assert {"account.commission_charged", "account.commission_marked"} <= {
        recorded.event.TOPIC for recorded in ledger.recorded
    }
    assert audited(ledger.recorded).findings == {}


def test_a_tombstone_of_a_round_that_never_came_is_no_finding(ledger, audited):
    ledger.cancel("b1", "R1")

    report = audited(ledger.recorded)

    assert (report.rounds, report.findings) == (0, {})


def test_a_bet_on_each_kind_by_each_variant_has_no_finding(ledger, audited):
    odds = {
        **Rules().odds,
        BetKind.EITHER_PAIR: (5, 1),
        BetKind.PERFECT_PAIR: {"one": (25, 1), "both": (200, 1)},
        BetKind.DRAGON7: (40, 1),
        BetKind.PANDA8: (25, 1),
        BetKind.LUCKY6: {"two_cards": (12, 1), "three_cards": (20, 1)},
        BetKind.SMALL: (3, 2),
        BetKind.BIG: (27, 50),
    }
    for account_id in ("ann", "bob"):
        ledger.open_account(account_id, deposit_minor=1_000_000_00)
    for variant in Variant:
        ledger.open_table(variant, rules=Rules(variant=variant, odds=odds))
        ledger.open_shoe(f"S-{variant}", variant, seed=variant.encode().ljust(32, b"."))
        for number in range(1, 61):
            ledger.play(
                f"{variant}-{number}",
                f"S-{variant}",
                bets=[
                    ("bob" if kind is BetKind.BANKER else "ann", kind, 10_03 + number)
                    for kind in BetKind
                ],
            )
        ledger.close_shoe(f"S-{variant}")

    report = audited(ledger.recorded)

    assert (report.rounds, report.findings) == (180, {})


def test_the_records_kept_are_bounded_by_the_open_shoes(ledger):
    ledger.open_table("T1")
    ledger.open_table("T2")
    ledger.open_account("ann")
    for shoe in range(12):
        for table in (1, 2):
            ledger.open_shoe(f"S{table}-{shoe}", f"T{table}", seed=bytes([shoe, table] * 16))
        for number in range(20):
            for table in (1, 2):
                ledger.play(
                    f"R{table}-{shoe}-{number}",
                    f"S{table}-{shoe}",
                    bets=[("ann", BetKind.TIE, 1)],
                )
        for table in (1, 2):
            ledger.close_shoe(f"S{table}-{shoe}")
    auditor = Auditor(lambda round_id: [], lambda stream_id: [])
    kept_most = 0
    for recorded in ledger.recorded:
        auditor.see(recorded)
        kept_most = max(kept_most, auditor.records_kept)

    assert kept_most == 42
    assert auditor.records_kept == 0
    assert auditor.finish().rounds == 480


def test_pages_are_audited_as_one_ledger(evening, load_from):
    pages = [evening[start : start + 7] for start in range(0, len(evening), 7)]

    report = audit(pages, *load_from(evening), head=len(evening))

    assert (report.rounds, report.findings) == (12, {})


def test_each_scope_of_an_honest_ledger_has_its_rounds_and_no_finding(evening, audited):
    assert audited(evening, scope=Scope(round="R3")).rounds == 1
    assert audited(evening, scope=Scope(shoe="S1")).rounds == 4
    assert audited(evening, scope=Scope(table="T2")).rounds == 8
    for scope in (Scope(round="R3"), Scope(shoe="S1"), Scope(shoe="S2"), Scope(table="T2")):
        assert audited(evening, scope=scope).findings == {}
