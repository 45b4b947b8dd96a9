"""Every golden commission through the whole ledger: from the command to the posting."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

VECTORS = json.loads((Path(__file__).parents[2] / "golden" / "commission.json").read_text())
AT = (datetime.now(UTC) - timedelta(hours=1)).isoformat()


def commands(collection):
    """A table for each policy, and at each a round in which every golden stake wins."""
    for table_id, policy in VECTORS["policies"].items():
        commission = {**policy, "rate_basis_points": VECTORS["rate_basis_points"]}
        rules = {"commission": {**commission, "collection": collection}}
        table = {"table_id": table_id, "currency": "USD", "rules": rules}
        yield {"command": "open_table", **table}
        shoe = {"shoe_id": table_id, "table_id": table_id, "source": "physical"}
        yield {"command": "open_shoe", **shoe}
        yield {"command": "open_account", "account_id": table_id, "currency": "USD"}
        staked = sum(row["stake_minor"] for row in VECTORS["rows"])
        yield {"command": "deposit", "account_id": table_id, "amount_minor": staked}
        yield {
            "command": "play_round",
            "round_id": table_id,
            "shoe_id": table_id,
            "cards": ["2S", "4D", "KH", "5C"],
            "bets": [
                {
                    "bet_id": f"B{row['stake_minor']}",
                    "account_id": table_id,
                    "bet": "banker",
                    "stake_minor": row["stake_minor"],
                }
                for row in VECTORS["rows"]
            ],
        }


@pytest.mark.parametrize("collection", ["per_round", "deferred"])
def test_every_policy_takes_the_golden_commission_to_the_unit(punto, tmp_path, collection):
    script = [{**each, "key": f"k{n}", "at": AT} for n, each in enumerate(commands(collection))]
    assert all(answer["ok"] for answer in punto.run(script))
    totals = {
        line["key"]: line["commission_minor"]
        for line in punto("commission", "--by", "table", "--json").lines
    }
    assert totals == {
        name: sum(row[name] for row in VECTORS["rows"]) for name in VECTORS["policies"]
    }
    # The golden rows themselves are the statement from outside, bet by bet.
    lines = ["round,bet,currency,commission_minor"] + [
        f"{name},B{row['stake_minor']},USD,{row[name]}"
        for name in VECTORS["policies"]
        for row in VECTORS["rows"]
    ]
    statement = tmp_path / "statement.csv"
    statement.write_text("\n".join(lines) + "\n")
    ran = punto("reconcile", "commission", "--statement", str(statement), "--json")
    assert (ran.code, ran.document["differences"]) == (0, [])
    sums = set(ran.document["currencies"]["USD"].values())
    assert sums == {sum(totals.values())}
