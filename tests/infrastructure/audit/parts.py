"""Audits a ledger in memory in one go, or in parts as so many processes would."""

from itertools import pairwise

from domain.account import AccountOpened
from domain.event import Unreadable
from domain.table import RulesChanged, TableOpened
from infrastructure.audit.accounts import AccountsAuditor
from infrastructure.audit.audit import Known, audit, learn_rules
from infrastructure.audit.findings import Tally
from infrastructure.audit.ranges import Gatherer, RangeAuditor

MOST = 5


def known_of(stored):
    rules, currencies = {}, {}
    for entry in stored:
        if isinstance(entry, Unreadable):
            continue
        if isinstance(entry.event, TableOpened | RulesChanged):
            learn_rules(rules, entry.event)
        elif isinstance(entry.event, AccountOpened):
            currencies[entry.event.originator_id] = entry.event.currency
    return Known(rules, currencies)


def stream_of(entry):
    return entry.stream if isinstance(entry, Unreadable) else entry.event.originator_id


def version_of(entry):
    return entry.version if isinstance(entry, Unreadable) else entry.event.originator_version


def in_one_go(stored, loaders):
    head = stored[-1].position
    return audit([stored], *loaders, head=head, known=known_of(stored))


def in_parts(stored, loaders, cuts):
    """Audits the ranges that end at some positions as so many processes would."""
    known, head = known_of(stored), stored[-1].position
    at = {entry.position: entry for entry in stored}
    gatherer = Gatherer(*loaders, history_faults=(), examples_max=MOST, known=known)
    for after, until in pairwise([0, *cuts, head]):
        auditor = RangeAuditor(known, examples_max=MOST)
        auditor.see_all([entry for entry in stored if after < entry.position <= until])
        part = auditor.part()
        gatherer.take_in(part, [[at[position] for position in part.leftovers]])
    gatherer.must_be_whole()
    tally = Tally(examples_max=MOST)
    accounts = AccountsAuditor(tally, kept={}, to_collect=gatherer.to_collect)
    mine = [entry for entry in stored if stream_of(entry).startswith("account:")]
    accounts.see_all(sorted(mine, key=lambda each: (stream_of(each), version_of(each))))
    accounts.finish()
    gatherer.take_in_accounts(tally)
    return gatherer.finish(head=head)
