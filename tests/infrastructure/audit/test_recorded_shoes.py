"""The rounds of a public simulator, point values only, with that program's mistakes."""

import csv
from collections import Counter
from pathlib import Path

import pytest

from domain.cards import parse_card
from domain.round import Declared
from domain.tableau import Outcome
from infrastructure.audit.audit import Auditor

RECORDED = Path(__file__).parents[3].parent / "shared" / "data" / "recorded_shoes.csv"
OUTCOMES = {
    "banker win": Outcome.BANKER,
    "player win": Outcome.PLAYER,
    "tie": Outcome.TIE,
}

needs_the_recorded_shoes = pytest.mark.skipif(
    not RECORDED.exists(), reason="../shared/data/recorded_shoes.csv is not here"
)


def record(ledger, row):
    points = {
        hand: tuple(
            parse_card(f"{'A' if row[column] == '1' else row[column]}?")
            for column in (f"{hand}card1", f"{hand}card2", f"{hand}card3")
            if row[column]
        )
        for hand in "pb"
    }
    ledger.record(
        f"{row['shoe number']}-{row['rounds']}",
        row["shoe number"],
        number=int(row["rounds"]),
        player=points["p"],
        banker=points["b"],
        declared=Declared(int(row["player total"]), int(row["b total"]), OUTCOMES[row["outcome"]]),
    )


@needs_the_recorded_shoes
@pytest.mark.usefixtures("unmeasured")
def test_the_recorded_shoes_have_exactly_the_known_findings(ledger, load_from):
    ledger.open_table("T1")
    auditor = Auditor(*load_from(()))
    outcomes = Counter()
    kept_most = 0
    shoe_id = None
    with RECORDED.open(newline="") as lines:
        for row in csv.DictReader(lines):
            if row["shoe number"] != shoe_id:
                if shoe_id is not None:
                    ledger.close_shoe(shoe_id)
                shoe_id = row["shoe number"]
                ledger.open_shoe(shoe_id, "T1")
            record(ledger, row)
            outcomes[row["outcome"]] += 1
    ledger.close_shoe(shoe_id)
    for recorded in ledger.recorded:
        auditor.see(recorded)
        kept_most = max(kept_most, auditor.records_kept)

    report = auditor.finish(head=len(ledger.recorded))

    assert outcomes == {"banker win": 18_220, "player win": 18_104, "tie": 3_665}
    assert report.rounds == 39_989
    assert report.rounds_with_findings == 14_408
    assert report.to_json()["findings"] == {
        "banker_third_card_missing": 539,
        "player_third_card_unexpected": 7_313,
        "banker_third_card_unexpected": 6_963,
        "banker_total_mismatch": 2_333,
        "outcome_mismatch": 950,
        "shoe_card_excess": 101,
    }
    assert kept_most < 100
