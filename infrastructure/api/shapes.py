"""The shapes of answers, field by field with their units, as the OpenAPI document has them.

A shape is a list of fields. What a field's name means is said once, in FIELDS,
and `field:kind` says what it holds where that is not what its name always
holds; `field?` may be null, `field!` may be left out.
"""

from typing import Any

from infrastructure.commands.contract import ID_PATTERN

Schema = dict[str, Any]

KINDS: dict[str, Schema] = {
    "id": {"type": "string", "pattern": ID_PATTERN},
    "text": {"type": "string"},
    "int": {"type": "integer"},
    "count": {"type": "integer", "minimum": 0},
    "minor": {"type": "integer"},
    "bool": {"type": "boolean"},
    "true": {"type": "boolean", "const": True},
    "time": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
    "card": {"type": "string", "pattern": "^[A2-9TJQK0?][SHDC?]$"},
    "total": {"type": "integer", "minimum": 0, "maximum": 9},
    "outcome": {"type": "string", "enum": ["player", "banker", "tie"]},
    "any": {},
    "object": {"type": "object"},
}

FIELDS: dict[str, tuple[str, str]] = {
    "account": ("text", "An account of the ledger, such as cage or player:P1."),
    "account_id": ("id", "The player's account."),
    "accounts": ("[AccountChange]", "The accounts, each before and after."),
    "actor": ("text", "Who does it: the owner of the key, which is filled in."),
    "after": ("Holding", "What the account held after the transaction."),
    "after_minor": ("minor", "Available afterwards, in minor units of the currency."),
    "allow_opposite_bets": ("bool", "Whether one account may bet on player and on banker."),
    "amount_minor": ("minor", "An amount in minor units of the currency."),
    "at": ("time", "When it happened, with an offset; the time of arrival where left out."),
    "available_minor": ("minor", "What can be staked or withdrawn, in minor units."),
    "balance_minor": ("minor", "The balance, debits less credits, in minor units."),
    "banker": ("Hand", "The Banker hand."),
    "banker_cards": ("[card]", "The cards of the Banker hand, in the order of the deal."),
    "banker_total": ("total", "The Banker hand's recorded total, in points from 0 to 9."),
    "before_minor": ("minor", "Available before, in minor units of the currency."),
    "bet": ("text", "What is staked on."),
    "bet_id": ("id", "The bet, known by its round and this name."),
    "bets": ("[Bet]", "The bets."),
    "burned": ("[card]", "The burned cards; ?? lay face down."),
    "by": ("text", "What the sums are made by."),
    "cards": ("[card]", "Cards in the order of the deal: rank and suit, as in AS or TD."),
    "cards_burned": ("count", "How many cards were burned."),
    "cards_drawn": ("count", "How many cards were dealt."),
    "cards_left": ("count", "How many cards the shoe still holds."),
    "closed": ("bool", "Whether the gaming day is closed; its report then never changes."),
    "closed_at": ("time", "When it was closed, UTC."),
    "closed_to": ("date", "The last gaming day that is closed."),
    "closing": ("Holding", "What the account held at the end of the period."),
    "code": ("text", "The error's stable code."),
    "collection": ("text", "Whether commission is taken with each win or collected later."),
    "commission": ("[CommissionLine]", "The commission."),
    "commission_collected_minor": ("minor", "Commission collected, in minor units."),
    "commission_due_minor": ("minor", "Commission marked and not collected, in minor units."),
    "commission_minor": ("minor", "Commission, in minor units of the currency."),
    "commitment": ("text", "A hash that binds the shuffled shoe to its seed: 64 hex digits."),
    "correction_id": ("id", "The correction."),
    "corrections": ("[Correction]", "The corrections of the round, in the order of proposal."),
    "credits_minor": ("minor", "The sum of credit balances, in minor units."),
    "currencies": ("object", "Sums by ISO 4217 currency, in minor units."),
    "currency": ("text", "ISO 4217 code of the currency."),
    "cut_card_is_out": ("bool", "Whether the cut card has come out."),
    "day": ("date", "The gaming day."),
    "debits_minor": ("minor", "The sum of debit balances, in minor units."),
    "decided_by": ("text", "Who approved or rejected it."),
    "decks": ("count", "Decks of 52 cards in the shoe."),
    "detail": ("text", "What is wrong, in words."),
    "details": ("object", "What else the event says; amounts end in _minor."),
    "deviation_minor": ("minor", "Won beyond theory, in minor units."),
    "deviations": ("text", "The same in standard deviations, as a decimal."),
    "differences": ("[object]", "Every difference, with the rounds and bets behind it."),
    "event": ("text", "The type of the event."),
    "events": ("[Event]", "Events in the order of their positions."),
    "examples": ("[Finding]", "The first findings of each code."),
    "field": ("text", "The part of the request that is to blame."),
    "findings": ("[Finding]", "What the audit finds."),
    "first_settled": ("object", "What a corrected round came to before its first correction."),
    "from": ("time", "The start, UTC."),
    "head": ("count", "The position of the latest event."),
    "head_recorded_at": ("time", "When the latest event was recorded, UTC."),
    "hold_percent": ("text", "Win and commission in per cent of the turnover, as a decimal."),
    "holds_from": ("time", "From when on the entry holds, UTC."),
    "in_play_end_minor": ("minor", "In play at the end of the day, in minor units."),
    "in_play_minor": ("minor", "Staked and not yet resolved, in minor units."),
    "in_play_start_minor": ("minor", "In play at the start of the day, in minor units."),
    "increment_minor": ("minor", "Commission is a multiple of this, in minor units."),
    "interrupted": ("[id]", "Rounds that are neither settled nor void."),
    "irregular": ("text", "Why the deal breaks the tableau, where it does."),
    "is_closed": ("bool", "Whether the account is closed."),
    "is_frozen": ("bool", "Whether bets and withdrawals are stopped."),
    "key": ("text", "What the line is about; of a command its idempotency key."),
    "lag_events": ("count", "How many events it is behind the head."),
    "late": ("[DayLine]", "What of closed days was booked on this one."),
    "limits": ("object", "The least and the most of a stake, in minor units."),
    "line": ("count", "The line within the entry or the request, counted from 1."),
    "maximum_minor": ("minor", "The most that may be staked, in minor units."),
    "minimum_minor": ("minor", "The least, in minor units of the currency."),
    "movements": ("[Movement]", "The transactions of the period, in order."),
    "name": ("text", "The name."),
    "next_after": ("count", "Give it as `after` for what follows; null at the end."),
    "number": ("count", "The running number: of a round in its shoe, of an account's transaction."),
    "odds": ("object", "What each bet pays, to one, as a pair of whole numbers."),
    "ok": ("bool", "Whether it was done, or everything agrees."),
    "opened_at": ("time", "When it was opened, UTC."),
    "opening": ("Holding", "What the account held at the start of the period."),
    "outcome": ("outcome", "The recorded outcome; null until the deal is complete."),
    "owed_collected_minor": ("minor", "What was owed and is collected, in minor units."),
    "owed_minor": ("minor", "What a correction took and the balance lacked, in minor units."),
    "own_day": ("date", "The gaming day on which it happened."),
    "parked": ("count", "How many events it could not fold."),
    "played": ("bool", "Whether anything was played or called off on the day."),
    "player": ("Hand", "The Player hand."),
    "player_cards": ("[card]", "The cards of the Player hand, in the order of the deal."),
    "player_total": ("total", "The Player hand's recorded total, in points from 0 to 9."),
    "position": ("count", "A place in the ledger: 1, 2, 3 … in the order of commits."),
    "postings": ("[Posting]", "Postings; those of a position are balanced."),
    "projections": ("[Projection]", "The read models."),
    "proposed_by": ("text", "Who proposed it."),
    "rate_basis_points": ("count", "The rate of the commission, in hundredths of a per cent."),
    "reason": ("text", "Why, for people."),
    "replayed": ("bool", "Whether the answer was given before, to the same key."),
    "result": ("any", "What the command came to."),
    "returned_minor": ("minor", "The stake that came back, in minor units."),
    "round_id": ("id", "The round."),
    "rounding": ("text", "How commission is rounded."),
    "rounds": ("count", "How many rounds."),
    "rounds_left": ("count", "Rounds that the shoe still deals, once its cut card is out."),
    "rounds_with_findings": ("count", "How many rounds have a finding."),
    "rules": ("object", "The table's rules, in full."),
    "rules_version": ("count", "The version of the table's rules, from 1."),
    "scheme": ("text", "How the shoe was shuffled."),
    "seed": ("text", "The seed of a shuffled shoe: 64 hex digits."),
    "settled_at": ("time", "When it was settled or voided, UTC."),
    "shoe_id": ("id", "The shoe."),
    "shoes": ("[Shoe]", "Shoes, the oldest first."),
    "source": ("text", "Whether the shoe is physical or shuffled."),
    "stake_minor": ("minor", "The stake, in minor units of the currency."),
    "standard_deviation_minor": ("minor", "The standard deviation, in minor units."),
    "starts_at": ("text", "The local time at which the gaming day starts, as in 06:00."),
    "state": ("text", "Where it stands."),
    "status": ("int", "The HTTP status."),
    "steps": ("[Step]", "The events of the round, in order, with the rule behind each draw."),
    "stream": ("text", "The aggregate's stream, such as round:R1."),
    "table": ("text", "The table that was asked for."),
    "table_id": ("id", "The table."),
    "tables": ("[Table]", "Tables, the oldest first."),
    "theoretical_minor": ("minor", "What the house wins in theory, in minor units."),
    "title": ("text", "The status in words."),
    "to": ("time", "The end, UTC."),
    "today": ("date", "The gaming day of now."),
    "total": ("total", "The recorded total, in points from 0 to 9."),
    "totals": ("[DayLine]", "All tables together, by currency."),
    "traceparent": ("text", "The W3C trace of the request that recorded it, where it had one."),
    "transaction": ("count", "The number of the account's latest transaction."),
    "turnover": ("object", "What was staked, by ISO 4217 currency, in minor units."),
    "turnover_minor": ("minor", "What was staked, in minor units."),
    "type": ("text", "The kind of problem, as a URI."),
    "variant": ("text", "commission, no_commission or ez."),
    "version": ("count", "The event's number in its stream, from 1."),
    "void": ("true", "That the round is void."),
    "void_rounds": ("count", "How many rounds were called off."),
    "win_minor": ("minor", "The win alone, without the stake and before commission, minor units."),
    "win_rounding": ("text", "How a win that is not whole is rounded to minor units."),
    "winning_banker_stakes_minor": ("minor", "Banker stakes that won, in minor units."),
    "zone": ("text", "The site's time zone, as in Europe/London."),
}
FIELDS["after_cut_card"] = ("count", "How many rounds follow the one in which the cut card came.")

BALANCE = "account_id currency available_minor in_play_minor commission_due_minor owed_minor"
STANDING = (
    "round_id shoe_id number state player_cards banker_cards player_total? banker_total? outcome?"
    " rounds_left?"
)

SHAPES: dict[str, str] = {
    "Holding": "available_minor in_play_minor commission_due_minor owed_minor",
    "Hand": "cards total?",
    "Bet": "bet_id account_id bet stake_minor currency result:text win_minor commission_minor",
    "AccountChange": "account_id currency before_minor after_minor",
    "Finding": "round_id? code detail shoe_id!",
    "RoundFinding": "code detail",
    "Correction": "correction_id reason! proposed_by! state decided_by? version?:count",
    "Step": "version event at actor ...",
    "Event": "position stream version event traceparent! at! actor! key! ...",
    "Table": "table_id currency rules_version variant decks shoe_id? rounds opened_at",
    "Tables": "tables next_after?",
    "Shoe": "shoe_id table_id decks source state rounds cards_drawn cards_burned cut_card_is_out"
    " opened_at closed_at?",
    "Shoes": "shoes next_after?",
    "Round": "round_id table_id shoe_id number state player_cards banker_cards player_total?"
    " banker_total? outcome? bets:count turnover opened_at settled_at?",
    "Rounds": "rounds:[Round] next_after?",
    "Replay": "round_id table_id shoe_id state version rules player banker outcome? bets"
    " first_settled? corrections steps findings:[RoundFinding]",
    "Audit": "rounds rounds_with_findings findings:object examples",
    "Account": f"{BALANCE} is_frozen is_closed opened_at version",
    "Accounts": "accounts:[Account] next_after?",
    "Balance": f"{BALANCE} position",
    "Movement": "number position at event actor amount_minor before_minor after_minor after"
    " details",
    "Statement": "account_id currency from? to? position opening movements closing",
    "CommissionLine": "key currency commission_minor winning_banker_stakes_minor bets:count",
    "Commission": "by commission",
    "Reconciliation": "ok currencies differences",
    "Days": "today closed_to?",
    "DayLine": "key currency turnover_minor win_minor commission_minor hold_percent? bets:count"
    " rounds void_rounds in_play_start_minor in_play_end_minor theoretical_minor deviation_minor"
    " standard_deviation_minor? deviations?",
    "Day": "day from to closed table? played totals tables:[DayLine] shoes:[DayLine]"
    " bets:[DayLine] accounts:[DayLine] late",
    "Posting": "position line account currency amount_minor balance_minor event account_id?"
    " number? round_id? bet_id? table_id? shoe_id? at day own_day holds_from",
    "Journal": "postings next_after?",
    "LedgerAccount": "account currency balance_minor",
    "TrialBalance": "ok currencies accounts:[LedgerAccount] differences",
    "Projection": "name position lag_events parked",
    "Status": "head head_recorded_at? projections interrupted",
    "Feed": "events next_after? head",
    "Problem": "type title status detail code field! key! replayed! line!",
    "OfAccount": f"{BALANCE} transaction",
    "OfCollection": f"{BALANCE} transaction commission_collected_minor owed_collected_minor",
    "OfRules": "table_id currency rules_version rules",
    "OfShoe": "shoe_id table_id source decks scheme! commitment! burned!",
    "OfBurning": "shoe_id burned",
    "OfCutCard": "shoe_id cards_left",
    "OfClosedShoe": "shoe_id rounds seed!",
    "OfStanding": STANDING,
    "OfBet": "round_id bet_id available_minor",
    "OfCancellation": "round_id bet_id returned_minor",
    "OfSettlement": f"{STANDING} bets accounts",
    "OfCorrection": "...",
    "OfGamingDay": "zone starts_at",
    "OfDay": "day",
}

RESULTS: dict[str, str] = {
    "set_gaming_day": "OfGamingDay",
    "close_day": "OfDay",
    "open_table": "OfRules",
    "change_rules": "OfRules",
    "open_account": "OfAccount",
    "deposit": "OfAccount",
    "withdraw": "OfAccount",
    "freeze_account": "OfAccount",
    "unfreeze_account": "OfAccount",
    "close_account": "OfAccount",
    "collect_due": "OfCollection",
    "open_shoe": "OfShoe",
    "burn_cards": "OfBurning",
    "cut_card": "OfCutCard",
    "close_shoe": "OfClosedShoe",
    "open_round": "OfStanding",
    "play_round": "OfSettlement",
    "place_bet": "OfBet",
    "cancel_bet": "OfCancellation",
    "close_betting": "OfStanding",
    "deal": "OfStanding",
    "settle_round": "OfSettlement",
    "void_round": "OfSettlement",
    "propose_correction": "OfCorrection",
    "approve_correction": "OfCorrection",
    "reject_correction": "OfCorrection",
}
"""What each command comes to."""

ANSWERS: dict[str, str] = {
    "list_tables": "Tables",
    "show_table": "Table",
    "list_shoes": "Shoes",
    "show_shoe": "Shoe",
    "list_rounds": "Rounds",
    "show_round": "Replay",
    "audit_round": "Audit",
    "list_accounts": "Accounts",
    "show_account": "Account",
    "show_balance": "Balance",
    "show_statement": "Statement",
    "show_commission": "Commission",
    "show_reconciliation": "Reconciliation",
    "show_days": "Days",
    "show_day": "Day",
    "list_journal": "Journal",
    "show_trial_balance": "TrialBalance",
    "show_status": "Status",
    "list_events": "Feed",
}
"""What each question is answered with."""


def schemas() -> dict[str, Schema]:
    """Every shape as a schema, and the answer to each command."""
    return {
        **{name: _shape(fields) for name, fields in SHAPES.items()},
        **{f"{command}_answer": _command_answer(of) for command, of in RESULTS.items()},
    }


def reference(name: str) -> Schema:
    """A reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def _command_answer(of: str) -> Schema:
    answer = _shape("key ok:true replayed position result")
    answer["properties"]["result"] = {
        "description": FIELDS["result"][1],
        "allOf": [reference(of)],
    }
    return answer


def _shape(fields: str) -> Schema:
    properties: dict[str, Schema] = {}
    required: list[str] = []
    is_open = False
    for field in fields.split():
        if field == "...":
            is_open = True
            continue
        name, _, kind = field.partition(":")
        is_nullable, is_optional = "?" in name, "!" in name
        name = name.rstrip("?!")
        usual, description = FIELDS[name]
        schema = _kind(kind or usual)
        if is_nullable:
            schema = {"anyOf": [schema, {"type": "null"}]}
        properties[name] = {"description": description, **schema}
        if not is_optional:
            required.append(name)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": is_open,
    }


def _kind(kind: str) -> Schema:
    if kind.startswith("["):
        return {"type": "array", "items": _kind(kind[1:-1])}
    if kind in KINDS:
        return dict(KINDS[kind])
    return reference(kind)
