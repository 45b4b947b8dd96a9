"""A table's life: opened, its rules changed, one shoe at a time."""

from functools import partial

from domain.bets import Variant
from domain.rules import STANDARD_RULES, Rules
from domain.table import RulesChanged, ShoePlaced, ShoeRemoved, Table, TableOpened

OPENED = partial(TableOpened, currency="USD", rules=STANDARD_RULES)
EZ = Rules(variant=Variant.EZ)


def test_a_table_opens_with_its_currency_and_rules(table):
    table.when(Table.open, "USD", rules=STANDARD_RULES).then(OPENED)
    assert (table.state.currency, table.state.rules_version) == ("USD", 1)


def test_a_table_opens_once(table):
    table.given(OPENED).when(Table.open, "EUR", rules=STANDARD_RULES).then_refused(
        "already_exists", field="table_id"
    )


def test_changed_rules_have_the_next_version(table):
    table.given(OPENED).when(Table.change_rules, EZ).then(
        partial(RulesChanged, rules_version=2, rules=EZ)
    )
    table.when(Table.change_rules, STANDARD_RULES).then(
        partial(RulesChanged, rules_version=3, rules=STANDARD_RULES)
    )
    assert table.state.rules == STANDARD_RULES


def test_the_rules_of_a_table_that_is_not_there_cannot_change(table):
    table.when(Table.change_rules, EZ).then_refused("unknown_table", field="table_id")


def test_no_shoe_is_placed_on_a_table_that_is_not_there(table):
    table.when(Table.place_shoe, "s1").then_refused("unknown_table", field="table_id")


def test_a_table_holds_one_shoe_at_a_time(table):
    table.given(OPENED).when(Table.place_shoe, "s1").then(partial(ShoePlaced, shoe_id="s1"))
    table.when(Table.place_shoe, "s2").then_refused("shoe_open")


def test_another_shoe_is_placed_when_the_first_is_gone(table):
    table.given(OPENED, partial(ShoePlaced, shoe_id="s1"))
    table.when(Table.remove_shoe, "s1").then(partial(ShoeRemoved, shoe_id="s1"))
    table.when(Table.place_shoe, "s2").then(partial(ShoePlaced, shoe_id="s2"))


def test_rules_may_change_while_a_shoe_is_on_the_table(table):
    table.given(OPENED, partial(ShoePlaced, shoe_id="s1"))
    table.when(Table.change_rules, EZ).then(partial(RulesChanged, rules_version=2, rules=EZ))
    assert table.state.shoe_id == "s1"
