"""The ledger once more, in plain dictionaries: it predicts the answer to every command.

Written from the specification, not from the program. `judge` is given a command
and the answer that the program gave, says where the two part, and goes on.
"""

import copy
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from domain.shuffle import shuffled
from tests.simulation import game

FREEDOMS = {
    "which refusal comes first": "the contract lists codes, not their order; any that applies will"
    " do",
    "a time that was filled in": "it may be moved forward to the latest event of the streams that"
    " it is written to, where another client's clock was ahead",
    "an irregular deal": "whose hand a forbidden card falls to is the ledger's to say, also after"
    " the deal is complete; it must keep the order of dealing, and the card does not count",
    "the cut card of a shuffled shoe": "it lies near the end: sixteen cards before it",
    "how many rounds after the cut card": "the table's policy when the next round opens decides,"
    " where it changed while the cut card was out",
    "a shoe with fewer than six cards": "no round is opened, since it might need them all",
    "burning": "one that a shuffled shoe did by itself is too late or no command at all; a second"
    " one may be refused as done",
    "what is paid first": "commission that is due before what is owed, the oldest mark first",
    "what a correction leaves": "an account whose bets it does not change records nothing",
    "a halved win": "without commission a Banker win with 6 pays half of the table's own price,"
    " which is 0.5 to 1 at the standard one",
    "what is already so": "freezing the frozen, cancelling the cancelled: confirmed or refused",
}

CLOCK_AHEAD_MAX = timedelta(minutes=5)
CLOCK_BEHIND_MAX = timedelta(days=7)
CARDS_A_ROUND_MAX = 6
CARDS_BEHIND_CUT_CARD = 16

Command = dict[str, Any]
Answer = dict[str, Any]
_BEGINNING = datetime(1, 1, 1, tzinfo=UTC)


class Verdict:
    """What may be answered: the codes that apply, and whether the command may be done."""

    def __init__(self) -> None:
        self.codes: set[str] = set()
        self.may_be_done_anyway = False
        self.streams: list[str] = []

    def refuse(self, code: str, applies: bool = True) -> bool:
        if applies:
            self.codes.add(code)
        return applies

    def perhaps(self, code: str, applies: bool = True) -> None:
        """A freedom: refused with this code, or done."""
        if applies:
            self.may_be_done_anyway = self.may_be_done_anyway or not self.codes
            self.codes.add(code)

    @property
    def is_done(self) -> bool:
        return not self.codes


class Ledger:
    """All that the ledger knows, and what it remembers of each client."""

    def __init__(self) -> None:
        self.accounts: dict[str, dict[str, Any]] = {}
        self.tables: dict[str, dict[str, Any]] = {}
        self.shoes: dict[str, dict[str, Any]] = {}
        self.rounds: dict[str, dict[str, Any]] = {}
        self.cancelled: dict[str, set[str]] = {}
        self.latest: dict[str, datetime] = {}
        self.versions: Counter[str] = Counter()
        self.flows: dict[str, Counter[str]] = {}
        self.corrections: dict[str, dict[str, Any]] = {}
        self.remembered: dict[tuple[str, str], tuple[Command, Answer]] = {}

    def judge(self, client: str, command: Command, now: datetime, answer: Answer) -> list[str]:
        """Where the answer is not the one to be expected; the model goes on by the answer."""
        content = _content(command)
        if (client, command["key"]) in self.remembered:
            return self._judge_again(client, content, answer)
        verdict = self.verdict(command, now)
        if answer.get("ok") is not True:
            faults = self._judge_refusal(verdict, command, answer)
            if not faults and answer["error"]["code"] not in ("invalid_command", "key_reused"):
                self.remembered[client, command["key"]] = (content, answer)
            return faults
        if verdict.codes and not verdict.may_be_done_anyway:
            return [f"accepted; expected a refusal: {sorted(verdict.codes)}"]
        expected = {
            "key": command["key"],
            "ok": True,
            "replayed": False,
            "result": self._do(command, verdict, now, answer["result"]),
        }
        self.remembered[client, command["key"]] = (content, answer)
        faults = _differences(expected, answer, "answer")
        if answer.keys() != {*expected, "position"}:
            faults.append(f"the answer has the fields {sorted(answer)}")
        return faults

    def identity(self) -> dict[str, int]:
        """Deposits less withdrawals, less all that the money became: nothing must be left."""
        left: Counter[str] = Counter()
        for currency, flow in self.flows.items():
            left[currency] += flow["deposits"] - flow["withdrawals"] - flow["house_win"]
            left[currency] -= flow["commission"]
        for account in self.accounts.values():
            held = account["available"] + account["in_play"] - due(account) - account["owed"]
            left[account["currency"]] -= held
        return dict(left)

    def verdict(self, command: Command, now: datetime) -> Verdict:
        """What may be answered to a command whose key is new."""
        verdict = Verdict()
        getattr(self, f"_check_{command['command']}")(command, verdict)
        at = _time(command.get("at"))
        if at is not None:
            verdict.refuse("time_out_of_bounds", at > now + CLOCK_AHEAD_MAX)
            verdict.refuse("time_out_of_bounds", at < now - CLOCK_BEHIND_MAX)
            latest = max((self._latest(stream) for stream in verdict.streams), default=_BEGINNING)
            verdict.refuse("time_out_of_bounds", at < latest)
            if "time_out_of_bounds" in verdict.codes:
                verdict.may_be_done_anyway = False
        return verdict

    # What was answered before, and refusals

    def _judge_again(self, client: str, content: Command, answer: Answer) -> list[str]:
        first_content, first = self.remembered[client, content["key"]]
        differing = {
            name
            for name in first_content.keys() | content.keys()
            if first_content.get(name) != content.get(name)
        }
        if not differing:
            return _differences({**first, "replayed": True}, answer, "answer again")
        error = answer.get("error", {})
        if answer.get("ok") or answer.get("replayed") or error.get("code") != "key_reused":
            return [f"expected key_reused for {sorted(differing)}"]
        if error.get("field") not in differing:
            return [f"key_reused names {error.get('field')}, differing are {sorted(differing)}"]
        return []

    @staticmethod
    def _judge_refusal(verdict: Verdict, command: Command, answer: Answer) -> list[str]:
        if verdict.is_done:
            return [f"refused as {answer['error'].get('code')}; expected it to be done"]
        faults = []
        if answer["error"].get("code") not in verdict.codes:
            faults.append(
                f"refused as {answer['error'].get('code')}; expected {sorted(verdict.codes)}"
            )
        if answer.keys() != {"key", "ok", "replayed", "error"}:
            faults.append(f"the refusal has the fields {sorted(answer)}")
        if answer["key"] != command["key"] or answer["replayed"] or not answer["error"]["message"]:
            faults.append("a refusal names its key, is not a replay and says why")
        return faults

    # Doing

    def _do(
        self, command: Command, verdict: Verdict, now: datetime, result: dict[str, Any]
    ) -> dict[str, Any]:
        latest = max((self._latest(stream) for stream in verdict.streams), default=_BEGINNING)
        at = _time(command.get("at")) or max(now, latest)
        for stream in verdict.streams:
            self.latest[stream] = at
        do: Callable[[Command, dict[str, Any]], dict[str, Any]]
        do = getattr(self, f"_do_{command['command']}")
        return do(command, result)

    def _latest(self, stream: str) -> datetime:
        return self.latest.get(stream, _BEGINNING)

    # The site

    def _check_set_gaming_day(self, command: Command, verdict: Verdict) -> None:
        verdict.streams = ["site"]

    def _do_set_gaming_day(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        return {"zone": command["zone"], "starts_at": command["starts_at"]}

    # Tables

    def _check_open_table(self, command: Command, verdict: Verdict) -> None:
        verdict.refuse("already_exists", command["table_id"] in self.tables)
        verdict.streams = [f"table:{command['table_id']}"]

    def _do_open_table(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        self.tables[command["table_id"]] = {
            "currency": command["currency"],
            "rules": full_rules(command.get("rules", {})),
            "rules_version": 1,
            "shoe": None,
        }
        return {"table_id": command["table_id"], "currency": command["currency"]}

    def _check_change_rules(self, command: Command, verdict: Verdict) -> None:
        verdict.refuse("unknown_table", command["table_id"] not in self.tables)
        verdict.streams = [f"table:{command['table_id']}"]

    def _do_change_rules(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        table = self.tables[command["table_id"]]
        table["rules"] = full_rules(command["rules"])
        table["rules_version"] += 1
        return {"table_id": command["table_id"], "rules_version": table["rules_version"]}

    # Accounts

    def _check_open_account(self, command: Command, verdict: Verdict) -> None:
        verdict.refuse("already_exists", command["account_id"] in self.accounts)
        verdict.streams = [f"account:{command['account_id']}"]

    def _do_open_account(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        self.accounts[command["account_id"]] = {
            "currency": command["currency"],
            "available": 0,
            "in_play": 0,
            "marks": {},
            "owed": 0,
            "status": "open",
        }
        return self._moved(command["account_id"])

    def _known_account(self, account_id: str, verdict: Verdict) -> dict[str, Any] | None:
        account = self.accounts.get(account_id)
        if account is None:
            verdict.refuse("unknown_account")
            return None
        verdict.refuse("account_closed", account["status"] == "closed")
        verdict.streams.append(f"account:{account_id}")
        return account

    def _check_deposit(self, command: Command, verdict: Verdict) -> None:
        self._known_account(command["account_id"], verdict)

    def _do_deposit(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        account = self.accounts[command["account_id"]]
        account["available"] += command["amount_minor"]
        self._flow(account["currency"], deposits=command["amount_minor"])
        return self._moved(command["account_id"])

    def _check_withdraw(self, command: Command, verdict: Verdict) -> None:
        account = self._known_account(command["account_id"], verdict)
        if account is None:
            return
        amount = command["amount_minor"]
        verdict.refuse("account_frozen", account["status"] == "frozen")
        if not verdict.refuse("insufficient_funds", amount > account["available"]):
            free = account["available"] - due(account) - account["owed"]
            verdict.refuse("commission_outstanding", amount > free)

    def _do_withdraw(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        account = self.accounts[command["account_id"]]
        account["available"] -= command["amount_minor"]
        self._flow(account["currency"], withdrawals=command["amount_minor"])
        return self._moved(command["account_id"])

    def _check_freeze_account(self, command: Command, verdict: Verdict) -> None:
        account = self._known_account(command["account_id"], verdict)
        if account is not None:
            verdict.perhaps("account_frozen", account["status"] == "frozen")

    def _do_freeze_account(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        return self._turned(command["account_id"], "frozen", result)

    def _check_unfreeze_account(self, command: Command, verdict: Verdict) -> None:
        self._known_account(command["account_id"], verdict)

    def _do_unfreeze_account(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        return self._turned(command["account_id"], "open", result)

    def _check_close_account(self, command: Command, verdict: Verdict) -> None:
        account = self._known_account(command["account_id"], verdict)
        if account is None or account["status"] == "closed":
            return
        left = account["available"] - due(account) - account["owed"]
        verdict.refuse("balance_not_zero", left > 0 or account["in_play"] > 0)
        verdict.refuse("commission_outstanding", left < 0)

    def _do_close_account(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        account = self.accounts[command["account_id"]]
        self._collect(command["account_id"], due(account), account["owed"])
        account["status"] = "closed"
        return self._moved(command["account_id"])

    def _check_collect_due(self, command: Command, verdict: Verdict) -> None:
        account = self._known_account(command["account_id"], verdict)
        if account is not None and not min(account["available"], due(account) + account["owed"]):
            verdict.streams = []

    def _do_collect_due(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        account = self.accounts[command["account_id"]]
        commission, owed = self._collect(command["account_id"], due(account), account["owed"])
        return {
            **self._balance(command["account_id"]),
            "commission_collected_minor": commission,
            "owed_collected_minor": owed,
        }

    def _collect(self, account_id: str, due_max: int, owed_max: int) -> tuple[int, int]:
        """What was collected of commission and of what is owed; the oldest mark goes first."""
        account = self.accounts[account_id]
        commission = min(due_max, account["available"])
        owed = min(owed_max, account["available"] - commission)
        account["available"] -= commission + owed
        account["owed"] -= owed
        left = commission
        for bet in list(account["marks"]):
            paid = min(left, account["marks"][bet])
            account["marks"][bet] -= paid
            left -= paid
            if not account["marks"][bet]:
                del account["marks"][bet]
        self.versions[f"account:{account_id}"] += commission + owed > 0
        return commission, owed

    def _turned(self, account_id: str, status: str, result: dict[str, Any]) -> dict[str, Any]:
        """Frozen or unfrozen; no new transaction where it was so already."""
        account = self.accounts[account_id]
        if account["status"] == status and result["transaction"] == self._transaction(account_id):
            return self._balance(account_id)
        account["status"] = status
        return self._moved(account_id)

    def _moved(self, account_id: str) -> dict[str, Any]:
        self.versions[f"account:{account_id}"] += 1
        return self._balance(account_id)

    def _balance(self, account_id: str) -> dict[str, Any]:
        account = self.accounts[account_id]
        return {
            "account_id": account_id,
            "currency": account["currency"],
            "available_minor": account["available"],
            "in_play_minor": account["in_play"],
            "commission_due_minor": due(account),
            "owed_minor": account["owed"],
            "transaction": self._transaction(account_id),
        }

    def _transaction(self, account_id: str) -> int:
        return self.versions[f"account:{account_id}"]

    def _flow(self, currency: str, **amounts: int) -> None:
        self.flows.setdefault(currency, Counter()).update(amounts)

    # Shoes

    def _check_open_shoe(self, command: Command, verdict: Verdict) -> None:
        table = self.tables.get(command["table_id"])
        verdict.refuse("already_exists", command["shoe_id"] in self.shoes)
        verdict.refuse("invalid_command", command["source"] == "physical" and "seed" in command)
        if not verdict.refuse("unknown_table", table is None) and table is not None:
            verdict.refuse("shoe_open", table["shoe"] is not None)
        verdict.streams = [f"shoe:{command['shoe_id']}", f"table:{command['table_id']}"]

    def _do_open_shoe(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        table = self.tables[command["table_id"]]
        table["shoe"] = command["shoe_id"]
        shoe: dict[str, Any] = {
            "table": command["table_id"],
            "source": command["source"],
            "decks": table["rules"]["decks"],
            "is_open": True,
            "round": None,
            "rounds": 0,
            "out": [],
            "order": (),
            "seed": command.get("seed"),
            "after_cut_card": None,
            "marked": set(),
        }
        self.shoes[command["shoe_id"]] = shoe
        expected = {
            "shoe_id": command["shoe_id"],
            "table_id": command["table_id"],
            "source": command["source"],
            "decks": shoe["decks"],
        }
        if shoe["source"] == "physical":
            return expected
        seed = bytes.fromhex(command["seed"])
        shoe["order"] = tuple(str(card) for card in shuffled(seed, shoe["decks"]))
        turned_up = shoe["order"][0]
        burned = 10 if turned_up[0] in "TJQK" else game.points(turned_up)
        shoe["out"] = list(shoe["order"][: 1 + burned])
        return {**expected, "burned": [turned_up, *["??"] * burned]}

    def _open_shoe(self, shoe_id: str, verdict: Verdict) -> dict[str, Any] | None:
        shoe = self.shoes.get(shoe_id)
        if shoe is None:
            verdict.refuse("unknown_shoe")
            return None
        verdict.refuse("shoe_closed", not shoe["is_open"])
        verdict.streams.append(f"shoe:{shoe_id}")
        return shoe

    def _check_burn_cards(self, command: Command, verdict: Verdict) -> None:
        shoe = self._open_shoe(command["shoe_id"], verdict)
        if shoe is None:
            return
        verdict.refuse("invalid_command", shoe["source"] == "shuffled")
        verdict.refuse("burn_too_late", shoe["rounds"] > 0 or shoe["source"] == "shuffled")
        verdict.refuse(
            "card_not_in_shoe", not game.fit_in(shoe["decks"], [*shoe["out"], *command["cards"]])
        )
        verdict.perhaps("already_exists", bool(shoe["out"]))

    def _do_burn_cards(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        self.shoes[command["shoe_id"]]["out"] += command["cards"]
        return {"shoe_id": command["shoe_id"], "burned": command["cards"]}

    def _check_cut_card(self, command: Command, verdict: Verdict) -> None:
        shoe = self._open_shoe(command["shoe_id"], verdict)
        if shoe is not None:
            verdict.refuse("invalid_command", shoe["source"] == "shuffled")
            verdict.perhaps("already_exists", shoe["after_cut_card"] is not None)

    def _do_cut_card(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        shoe = self.shoes[command["shoe_id"]]
        if shoe["after_cut_card"] is None:
            shoe["after_cut_card"] = 0
        return {"shoe_id": command["shoe_id"]}

    def _check_close_shoe(self, command: Command, verdict: Verdict) -> None:
        shoe = self._open_shoe(command["shoe_id"], verdict)
        if shoe is not None:
            verdict.refuse("round_open", shoe["round"] is not None)
            verdict.streams.append(f"table:{shoe['table']}")
            for account_id in shoe["marked"]:
                account = self.accounts[account_id]
                if min(account["available"], due(account)):
                    verdict.streams.append(f"account:{account_id}")

    def _do_close_shoe(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        shoe = self.shoes[command["shoe_id"]]
        shoe["is_open"] = False
        for account_id in shoe["marked"]:
            self._collect(account_id, due(self.accounts[account_id]), 0)
        self.tables[shoe["table"]]["shoe"] = None
        return {"shoe_id": command["shoe_id"], "rounds": shoe["rounds"]}

    # Rounds

    def _check_open_round(self, command: Command, verdict: Verdict) -> None:
        verdict.refuse("already_exists", command["round_id"] in self.rounds)
        verdict.streams.append(f"round:{command['round_id']}")
        shoe = self._open_shoe(command["shoe_id"], verdict)
        if shoe is None:
            return
        verdict.refuse("round_open", shoe["round"] is not None)
        left = 52 * shoe["decks"] - len(shoe["out"])
        allowed = self.tables[shoe["table"]]["rules"]["after_cut_card"]
        is_last = shoe["after_cut_card"] is not None and shoe["after_cut_card"] >= allowed
        verdict.refuse("shoe_exhausted", left < CARDS_A_ROUND_MAX or is_last)

    def _do_open_round(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        shoe = self.shoes[command["shoe_id"]]
        shoe["rounds"] += 1
        shoe["round"] = command["round_id"]
        if shoe["after_cut_card"] is not None:
            shoe["after_cut_card"] += 1
        table = self.tables[shoe["table"]]
        self.rounds[command["round_id"]] = {
            "shoe": command["shoe_id"],
            "currency": table["currency"],
            "number": shoe["rounds"],
            "rules": table["rules"],
            "state": "betting",
            "player": [],
            "banker": [],
            "forbidden": [],
            "is_irregular": False,
            "dealt": [],
            "bets": {},
        }
        return self._shown(command["round_id"], result)

    def _round(self, round_id: str, verdict: Verdict) -> dict[str, Any] | None:
        found = self.rounds.get(round_id)
        if found is None:
            verdict.refuse("unknown_round")
            return None
        verdict.refuse("round_settled", found["state"] == "settled")
        verdict.refuse("round_void", found["state"] == "void")
        verdict.streams.append(f"round:{round_id}")
        return found

    def _check_place_bet(self, command: Command, verdict: Verdict) -> None:
        found = self._round(command["round_id"], verdict)
        account = self._known_account(command["account_id"], verdict)
        bet_id = command["bet_id"]
        verdict.refuse("bet_cancelled", bet_id in self.cancelled.get(command["round_id"], ()))
        if found is not None:
            verdict.refuse("betting_closed", found["state"] not in ("betting", "settled", "void"))
            verdict.refuse("already_exists", bet_id in found["bets"])
            self._check_offer(command, found, verdict)
        if account is not None:
            verdict.refuse("account_frozen", account["status"] == "frozen")
            verdict.refuse("insufficient_funds", command["stake_minor"] > account["available"])
            if found is not None:
                verdict.refuse("currency_mismatch", account["currency"] != found["currency"])

    @staticmethod
    def _check_offer(command: Command, found: dict[str, Any], verdict: Verdict) -> None:
        rules, kind, stake = found["rules"], command["bet"], command["stake_minor"]
        verdict.refuse("bet_not_offered", kind not in rules["odds"])
        limits = {**rules["limits"], **rules["limits"].get(kind, {})}
        verdict.refuse("limit_below", stake < limits["minimum_minor"])
        verdict.refuse("limit_above", stake > limits["maximum_minor"])
        other = {"player": "banker", "banker": "player"}.get(kind)
        verdict.refuse(
            "opposite_bets",
            not rules["allow_opposite_bets"]
            and any(
                (bet["kind"], bet["account"]) == (other, command["account_id"])
                for bet in found["bets"].values()
                if not bet["is_cancelled"]
            ),
        )

    def _do_place_bet(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        account = self.accounts[command["account_id"]]
        account["available"] -= command["stake_minor"]
        account["in_play"] += command["stake_minor"]
        self.versions[f"account:{command['account_id']}"] += 1
        self.rounds[command["round_id"]]["bets"][command["bet_id"]] = {
            "account": command["account_id"],
            "kind": command["bet"],
            "stake": command["stake_minor"],
            "is_cancelled": False,
        }
        return {
            "round_id": command["round_id"],
            "bet_id": command["bet_id"],
            "available_minor": account["available"],
        }

    def _check_cancel_bet(self, command: Command, verdict: Verdict) -> None:
        round_id, bet_id = command["round_id"], command["bet_id"]
        verdict.streams.append(f"round:{round_id}")
        if bet_id in self.cancelled.get(round_id, ()):
            verdict.perhaps("bet_cancelled")
        found = self.rounds.get(round_id)
        if found is None:
            return
        verdict.refuse("round_settled", found["state"] == "settled")
        verdict.refuse("round_void", found["state"] == "void")
        verdict.refuse("betting_closed", found["state"] == "dealing")
        verdict.may_be_done_anyway = verdict.codes == {"bet_cancelled"}
        bet = found["bets"].get(bet_id)
        if bet is not None and not bet["is_cancelled"]:
            verdict.streams.append(f"account:{bet['account']}")

    def _do_cancel_bet(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        round_id, bet_id = command["round_id"], command["bet_id"]
        self.cancelled.setdefault(round_id, set()).add(bet_id)
        bet = self.rounds.get(round_id, {"bets": {}})["bets"].get(bet_id)
        returned = 0
        if bet is not None and not bet["is_cancelled"]:
            bet["is_cancelled"] = True
            returned = bet["stake"]
            self._give_back(bet, 0)
        return {"round_id": round_id, "bet_id": bet_id, "returned_minor": returned}

    def _give_back(self, bet: dict[str, Any], win_minor: int) -> None:
        account = self.accounts[bet["account"]]
        account["in_play"] -= bet["stake"]
        account["available"] += bet["stake"] + win_minor
        self.versions[f"account:{bet['account']}"] += 1

    def _check_close_betting(self, command: Command, verdict: Verdict) -> None:
        found = self._round(command["round_id"], verdict)
        if found is not None:
            verdict.refuse("betting_closed", found["state"] == "dealing")

    def _do_close_betting(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        self.rounds[command["round_id"]]["state"] = "dealing"
        return self._shown(command["round_id"], result)

    def _check_deal(self, command: Command, verdict: Verdict) -> None:
        found = self._round(command["round_id"], verdict)
        if found is None:
            return
        verdict.refuse("betting_open", found["state"] == "betting")
        shoe = self.shoes[found["shoe"]]
        cards = command.get("cards")
        verdict.refuse("invalid_command", (shoe["source"] == "physical") != (cards is not None))
        if shoe["source"] == "shuffled":
            if game.next_hand(found["player"], found["banker"]) is None:
                verdict.refuse("third_card_not_allowed")
            verdict.refuse("invalid_command", "irregular" in command)
        elif cards is not None:
            self._check_cards(command, found, shoe, verdict)

    @staticmethod
    def _check_cards(
        command: Command, found: dict[str, Any], shoe: dict[str, Any], verdict: Verdict
    ) -> None:
        cards = command["cards"]
        forbidden = len(found["forbidden"])
        out = [*shoe["out"], *found["player"], *found["banker"], *found["forbidden"], *cards]
        verdict.refuse("card_not_in_shoe", not game.fit_in(shoe["decks"], out))
        player, banker = list(found["player"]), list(found["banker"])
        both_thirds = _brings_both_thirds(command, found)
        for card in cards:
            whose = game.next_hand(player, banker)
            first_third = len(player) + len(banker) + forbidden == 4
            if whose is None or (both_thirds and first_third and whose == "banker"):
                forbidden += 1
            else:
                (player if whose == "player" else banker).append(card)
        too_many = len(player) + len(banker) + forbidden > CARDS_A_ROUND_MAX
        is_regular = forbidden == len(found["forbidden"])
        verdict.refuse(
            "third_card_not_allowed", not is_regular and (too_many or "irregular" not in command)
        )
        verdict.refuse(
            "undecidable_bet",
            any(
                game.undecidable(bet["kind"], player, banker)
                for bet in found["bets"].values()
                if not bet["is_cancelled"]
            ),
        )

    def _do_deal(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        found = self.rounds[command["round_id"]]
        shoe = self.shoes[found["shoe"]]
        player, banker = found["player"], found["banker"]
        found["is_irregular"] = found["is_irregular"] or command.get("irregular") is not None
        is_shuffled = shoe["source"] == "shuffled"
        both_thirds = _brings_both_thirds(command, found)
        for card in shoe["order"][len(shoe["out"]) :] if is_shuffled else command["cards"]:
            whose = game.next_hand(player, banker)
            first_third = len(player) + len(banker) + len(found["forbidden"]) == 4
            if both_thirds and first_third and whose == "banker":
                found["forbidden"].append(card)
            elif whose is not None:
                (player if whose == "player" else banker).append(card)
            elif is_shuffled:
                break
            else:
                found["forbidden"].append(card)
            found["dealt"].append(card)
        left = 52 * shoe["decks"] - len(shoe["out"]) - len(player) - len(banker)
        if is_shuffled and shoe["after_cut_card"] is None and left <= CARDS_BEHIND_CUT_CARD:
            shoe["after_cut_card"] = 0
        return self._shown(command["round_id"], result)

    def _check_settle_round(self, command: Command, verdict: Verdict) -> None:
        found = self._round(command["round_id"], verdict)
        if found is None or verdict.codes:
            return
        self._touch_all(found, verdict)
        verdict.refuse("betting_open", found["state"] == "betting")
        verdict.refuse("deal_incomplete", not _is_complete(found))

    def _do_settle_round(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        found = self.rounds[command["round_id"]]
        before = self._balances(found)
        hands = found["player"], found["banker"]
        bets = []
        for bet_id, bet in found["bets"].items():
            if bet["is_cancelled"]:
                bets.append(_bet_returned(bet_id, bet, found["currency"]))
            else:
                outcome = game.settled(bet["kind"], bet["stake"], hands, found["rules"])
                bets.append(self._settle(command["round_id"], bet_id, outcome))
        found["state"] = "settled"
        self._end(found)
        return {
            **self._shown(command["round_id"], result),
            "bets": bets,
            "accounts": self._before_and_after(found, before),
        }

    def _settle(self, round_id: str, bet_id: str, outcome: dict[str, Any]) -> dict[str, Any]:
        found = self.rounds[round_id]
        currency, bet = found["currency"], found["bets"][bet_id]
        bet["outcome"] = outcome
        account = self.accounts[bet["account"]]
        if outcome["result"] == "lost":
            account["in_play"] -= bet["stake"]
            self.versions[f"account:{bet['account']}"] += 1
            self._flow(currency, house_win=bet["stake"])
        else:
            self._give_back(bet, outcome["win_minor"])
            self._flow(currency, house_win=-outcome["win_minor"])
        charged = 0
        if found["rules"]["commission"]["collection"] == "per_round":
            charged = min(outcome["commission_minor"], account["available"])
        marked = outcome["commission_minor"] - charged
        account["available"] -= charged
        if marked:
            account["marks"][round_id, bet_id] = marked
            self.shoes[found["shoe"]]["marked"].add(bet["account"])
        self.versions[f"account:{bet['account']}"] += (charged > 0) + (marked > 0)
        self._flow(currency, commission=outcome["commission_minor"])
        return {**_bet_shown(bet_id, bet, currency), **outcome}

    def _check_void_round(self, command: Command, verdict: Verdict) -> None:
        found = self._round(command["round_id"], verdict)
        if found is not None:
            self._touch_all(found, verdict)

    def _do_void_round(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        found = self.rounds[command["round_id"]]
        before = self._balances(found)
        bets = []
        for bet_id, bet in found["bets"].items():
            if not bet["is_cancelled"]:
                self._give_back(bet, 0)
            bets.append(_bet_returned(bet_id, bet, found["currency"]))
        found["state"] = "void"
        self._end(found)
        return {
            **self._shown(command["round_id"], result),
            "bets": bets,
            "accounts": self._before_and_after(found, before),
        }

    def _touch_all(self, found: dict[str, Any], verdict: Verdict) -> None:
        verdict.streams.append(f"shoe:{found['shoe']}")
        verdict.streams += [
            f"account:{bet['account']}" for bet in found["bets"].values() if not bet["is_cancelled"]
        ]

    def _end(self, found: dict[str, Any]) -> None:
        shoe = self.shoes[found["shoe"]]
        shoe["out"] += [*found["player"], *found["banker"], *found["forbidden"]]
        shoe["round"] = None

    def _balances(self, found: dict[str, Any]) -> dict[str, int]:
        """What the round's accounts had available before its bets were staked."""
        balances: dict[str, int] = {}
        for bet in found["bets"].values():
            if not bet["is_cancelled"]:
                available = self.accounts[bet["account"]]["available"]
                balances[bet["account"]] = balances.get(bet["account"], available) + bet["stake"]
        return balances

    def _before_and_after(
        self, found: dict[str, Any], before: dict[str, int]
    ) -> list[dict[str, Any]]:
        return [
            {
                "account_id": account_id,
                "currency": found["currency"],
                "before_minor": available,
                "after_minor": self.accounts[account_id]["available"],
            }
            for account_id, available in before.items()
        ]

    def _shown(self, round_id: str, result: dict[str, Any]) -> dict[str, Any]:
        found = self.rounds[round_id]
        shown = {
            "round_id": round_id,
            "shoe_id": found["shoe"],
            "number": found["number"],
            **_hands_shown(found, result),
            "outcome": None,
        }
        if _is_complete(found):
            shown["player_total"] = game.total(found["player"])
            shown["banker_total"] = game.total(found["banker"])
            shown["outcome"] = game.outcome(found["player"], found["banker"])
        return copy.deepcopy(shown)

    # Corrections

    def _check_propose_correction(self, command: Command, verdict: Verdict) -> None:
        verdict.refuse("already_exists", command["correction_id"] in self.corrections)
        verdict.streams.append(f"correction:{command['correction_id']}")
        found = self._settled_round(command["round_id"], verdict)
        if found is not None:
            self._check_corrected(found, command, verdict)

    def _do_propose_correction(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        self.corrections[command["correction_id"]] = {**command, "is_decided": False}
        return {
            "correction_id": command["correction_id"],
            "round_id": command["round_id"],
            "state": "proposed",
        }

    def _settled_round(self, round_id: str, verdict: Verdict) -> dict[str, Any] | None:
        found = self.rounds.get(round_id)
        if verdict.refuse("unknown_round", found is None) or found is None:
            return None
        verdict.streams.append(f"round:{round_id}")
        if verdict.refuse("round_void", found["state"] == "void"):
            return None
        return None if verdict.refuse("round_open", found["state"] != "settled") else found

    def _check_corrected(
        self, found: dict[str, Any], proposal: dict[str, Any], verdict: Verdict
    ) -> None:
        """Judges what is to hold by the rules of the round."""
        if "bets" in proposal:
            self._check_corrected_bets(found, proposal, verdict)
        if "void" in proposal:
            return
        player, banker = found["player"], found["banker"]
        if "cards" in proposal:
            player, banker, forbidden = _laid(proposal["cards"], found)
            verdict.refuse("third_card_not_allowed", bool(forbidden) and not found["is_irregular"])
            verdict.refuse("third_card_not_allowed", len(player) + len(banker) > 6)
            verdict.refuse("deal_incomplete", game.next_hand(player, banker) is not None)
            self._check_corrected_shoe(found, proposal["cards"], verdict)
        verdict.refuse(
            "undecidable_bet",
            any(
                game.undecidable(bet["kind"], player, banker)
                for bet in _corrected_bets(found, proposal).values()
            ),
        )

    def _check_corrected_shoe(
        self, found: dict[str, Any], cards: list[str], verdict: Verdict
    ) -> None:
        shoe = self.shoes[found["shoe"]]
        before = [*found["player"], *found["banker"], *found["forbidden"]]
        if shoe["source"] == "shuffled":
            verdict.refuse("invalid_command", sorted(cards) != sorted(before))
            if cards != found["dealt"]:
                verdict.refuse("invalid_command")
            return
        out = Counter(shoe["out"])
        out.subtract(before)
        out.update(cards)
        if shoe["round"] is not None:
            table = self.rounds[shoe["round"]]
            out.update([*table["player"], *table["banker"], *table["forbidden"]])
        verdict.refuse("card_not_in_shoe", not game.fit_in(shoe["decks"], [*out.elements()]))

    def _check_corrected_bets(
        self, found: dict[str, Any], proposal: dict[str, Any], verdict: Verdict
    ) -> None:
        placed: dict[str, Any] = {**found, "bets": {}}
        for bet in proposal["bets"]:
            cancelled = self.cancelled.get(proposal["round_id"], ())
            verdict.refuse("bet_cancelled", bet["bet_id"] in cancelled)
            verdict.refuse("already_exists", bet["bet_id"] in placed["bets"])
            self._check_offer(bet, placed, verdict)
            account = self.accounts.get(bet["account_id"])
            if not verdict.refuse("unknown_account", account is None) and account is not None:
                verdict.refuse("currency_mismatch", account["currency"] != found["currency"])
            placed["bets"][bet["bet_id"]] = _bet_of(bet)

    def _undecided(self, command: Command, verdict: Verdict) -> dict[str, Any] | None:
        proposal = self.corrections.get(command["correction_id"])
        if verdict.refuse("unknown_correction", proposal is None) or proposal is None:
            return None
        verdict.streams.append(f"round:{proposal['round_id']}")
        verdict.refuse("already_decided", proposal["is_decided"])
        verdict.refuse("same_actor", proposal["actor"] == command["actor"])
        return proposal

    def _check_reject_correction(self, command: Command, verdict: Verdict) -> None:
        self._undecided(command, verdict)

    def _do_reject_correction(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        proposal = self.corrections[command["correction_id"]]
        proposal["is_decided"] = True
        return {
            "correction_id": command["correction_id"],
            "round_id": proposal["round_id"],
            "state": "rejected",
        }

    def _check_approve_correction(self, command: Command, verdict: Verdict) -> None:
        proposal = self._undecided(command, verdict)
        if proposal is None or verdict.codes:
            return
        found = self._settled_round(proposal["round_id"], verdict)
        if found is None:
            return
        self._check_corrected(found, proposal, verdict)
        if verdict.codes:
            return
        changes = _changes(found, proposal)
        touched = {bet["account"] for both in changes.values() for bet in both if bet is not None}
        verdict.streams += [f"account:{account_id}" for account_id in touched]
        shoe = self.shoes[found["shoe"]]
        is_deferred = found["rules"]["commission"]["collection"] == "deferred"
        marks = is_deferred and any(
            becomes is not None and becomes["outcome"]["commission_minor"]
            for _, becomes in changes.values()
        )
        changed_cards = "cards" in proposal and proposal["cards"] != found["dealt"]
        if changed_cards or (marks and shoe["is_open"]):
            verdict.streams.append(f"shoe:{found['shoe']}")

    def _do_approve_correction(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        proposal = self.corrections[command["correction_id"]]
        proposal["is_decided"] = True
        round_id = proposal["round_id"]
        found = self.rounds[round_id]
        changes = _changes(found, proposal)
        before = {
            bet["account"]: dict(self.accounts[bet["account"]])
            for both in changes.values()
            for bet in both
            if bet is not None
        }
        for account_id in before:
            if self.accounts[account_id]["status"] == "closed":
                self.accounts[account_id]["status"] = "frozen"
                self.versions[f"account:{account_id}"] += 1
        for bet_id, (was, _) in changes.items():
            if was is not None:
                self._reverse(round_id, bet_id, was)
        marked = self._resettle(round_id, proposal, changes)
        shoe = self.shoes[found["shoe"]]
        for account_id, stood in before.items():
            account = self.accounts[account_id]
            is_due = account_id in marked and not shoe["is_open"]
            became_owed = account["owed"] - stood["owed"]
            self._collect(account_id, due(account) if is_due else 0, became_owed)
        return {
            **self._shown(round_id, result),
            "correction_id": command["correction_id"],
            "bets": [self._bet_standing(bet_id, found) for bet_id in found["bets"]],
            "accounts": [
                {**line, "owed_minor": self.accounts[line["account_id"]]["owed"]}
                for line in self._before_and_after(
                    found, {name: stood["available"] for name, stood in before.items()}
                )
            ],
        }

    def _reverse(self, round_id: str, bet_id: str, bet: dict[str, Any]) -> None:
        account, outcome = self.accounts[bet["account"]], bet["outcome"]
        still_due = account["marks"].pop((round_id, bet_id), 0)
        is_lost = outcome["result"] == "lost"
        account["available"] += outcome["commission_minor"] - still_due - outcome["win_minor"]
        account["available"] -= 0 if is_lost else bet["stake"]
        account["in_play"] += bet["stake"]
        self._advance(account)
        self.versions[f"account:{bet['account']}"] += 1
        house_win = bet["stake"] if is_lost else -outcome["win_minor"]
        currency = self.rounds[round_id]["currency"]
        self._flow(currency, house_win=-house_win, commission=-outcome["commission_minor"])

    @staticmethod
    def _advance(account: dict[str, Any]) -> None:
        """What a balance lacks is owed."""
        if account["available"] < 0:
            account["owed"] -= account["available"]
            account["available"] = 0

    def _resettle(
        self, round_id: str, proposal: dict[str, Any], changes: dict[str, Any]
    ) -> set[str]:
        """Settles anew what changed; the accounts for which commission was marked."""
        found = self.rounds[round_id]
        shoe = self.shoes[found["shoe"]]
        held = _corrected_bets(found, proposal)
        if "cards" in proposal:
            for card in (*found["player"], *found["banker"], *found["forbidden"]):
                shoe["out"].remove(card)
            found["player"], found["banker"], found["forbidden"] = _laid(proposal["cards"], found)
            found["dealt"] = proposal["cards"]
            shoe["out"] += proposal["cards"]
        hands = found["player"], found["banker"]
        for bet in held.values():
            bet["outcome"] = game.settled(bet["kind"], bet["stake"], hands, found["rules"])
        moved = {bet_id: both for bet_id, both in changes.items() if not _stays(*both)}
        for was, _ in moved.values():
            if was is not None:
                self._give_back(was, 0)
        for bet in found["bets"].values():
            bet["is_cancelled"] = True
        found["bets"] |= held
        if "void" in proposal:
            found["state"] = "void"
        for _, becomes in moved.values():
            if becomes is not None:
                account = self.accounts[becomes["account"]]
                account["available"] -= becomes["stake"]
                account["in_play"] += becomes["stake"]
                self._advance(account)
                self.versions[f"account:{becomes['account']}"] += 1
        marked = set()
        for bet_id, (_, becomes) in changes.items():
            if becomes is not None:
                self._settle(round_id, bet_id, becomes["outcome"])
                if (round_id, bet_id) in self.accounts[becomes["account"]]["marks"]:
                    marked.add(becomes["account"])
        return marked

    @staticmethod
    def _bet_standing(bet_id: str, found: dict[str, Any]) -> dict[str, Any]:
        bet = found["bets"][bet_id]
        if bet["is_cancelled"]:
            return _bet_returned(bet_id, bet, found["currency"])
        return {**_bet_shown(bet_id, bet, found["currency"]), **bet["outcome"]}

    # From open to settled in one command

    def _check_play_round(self, command: Command, verdict: Verdict) -> None:
        opening = {"command": "open_round", "round_id": command["round_id"]}
        opening["shoe_id"] = command["shoe_id"]
        self._check_open_round(opening, verdict)
        shoe = self.shoes.get(command["shoe_id"])
        if shoe is not None:
            is_physical = shoe["source"] == "physical"
            verdict.refuse("invalid_command", is_physical != ("cards" in command))
        if shoe is None:
            return
        scratch = self._scratch(command)
        scratch._do_open_round(opening, {})
        for bet in command["bets"]:
            placing = {**bet, "command": "place_bet", "round_id": command["round_id"]}
            placed = Verdict()
            scratch._check_place_bet(placing, placed)
            verdict.codes |= placed.codes
            verdict.streams += placed.streams
            if placed.is_done:
                scratch._do_place_bet(placing, {})
        self._check_play(command, scratch, verdict)

    @staticmethod
    def _check_play(command: Command, scratch: "Ledger", verdict: Verdict) -> None:
        found = scratch.rounds[command["round_id"]]
        found["state"] = "dealing"
        dealing = {**command, "command": "deal"}
        dealt = Verdict()
        scratch._check_deal(dealing, dealt)
        verdict.codes |= dealt.codes
        if dealt.is_done:
            scratch._do_deal(dealing, {})
            verdict.refuse("deal_incomplete", not _is_complete(found))

    def _scratch(self, command: Command) -> "Ledger":
        """Copies of all that a round in one command may change."""
        scratch = Ledger()
        scratch.tables, scratch.cancelled = self.tables, self.cancelled
        scratch.shoes = {command["shoe_id"]: copy.copy(self.shoes[command["shoe_id"]])}
        scratch.accounts = {
            bet["account_id"]: dict(self.accounts[bet["account_id"]])
            for bet in command["bets"]
            if bet["account_id"] in self.accounts
        }
        return scratch

    def _do_play_round(self, command: Command, result: dict[str, Any]) -> dict[str, Any]:
        before = {
            bet["account_id"]: self.accounts[bet["account_id"]]["available"]
            for bet in command["bets"]
        }
        self._do_open_round(command, {})
        for bet in command["bets"]:
            self._do_place_bet({**bet, "round_id": command["round_id"]}, {})
        self._do_deal(command, result)
        settled = self._do_settle_round(command, result)
        found = self.rounds[command["round_id"]]
        return {**settled, "accounts": self._before_and_after(found, before)}


def due(account: dict[str, Any]) -> int:
    """Commission that was marked and is not collected."""
    return sum(account["marks"].values())


def full_rules(given: dict[str, Any]) -> dict[str, Any]:
    """A table's rules with the standard ones for the parts that were left out."""
    return {
        "variant": given.get("variant", "commission"),
        "decks": given.get("decks", 8),
        "odds": given.get("odds", game.STANDARD_ODDS),
        "commission": {**game.STANDARD_COMMISSION, **given.get("commission", {})},
        "win_rounding": given.get("win_rounding", "down"),
        "limits": {
            "minimum_minor": 1,
            "maximum_minor": 1_000_000_000,
            **given.get("limits", {}),
        },
        "after_cut_card": given.get("after_cut_card", 1),
        "allow_opposite_bets": given.get("allow_opposite_bets", False),
    }


def _bet_shown(bet_id: str, bet: dict[str, Any], currency: str) -> dict[str, Any]:
    return {
        "bet_id": bet_id,
        "account_id": bet["account"],
        "bet": bet["kind"],
        "stake_minor": bet["stake"],
        "currency": currency,
    }


def _brings_both_thirds(command: Command, found: dict[str, Any]) -> bool:
    """Whether an irregular deal says whose its third cards are: the Player's comes first."""
    dealt = len(found["player"]) + len(found["banker"]) + len(found["forbidden"])
    cards = command.get("cards") or ()
    return command.get("irregular") is not None and dealt <= 4 and dealt + len(cards) == 6


def _bet_returned(bet_id: str, bet: dict[str, Any], currency: str) -> dict[str, Any]:
    returned = {"result": "returned", "win_minor": 0, "commission_minor": 0}
    return {**_bet_shown(bet_id, bet, currency), **returned}


def _hands_shown(found: dict[str, Any], result: dict[str, Any]) -> dict[str, list[str]]:
    """Both hands, and each forbidden card in the one that the ledger shows it in."""
    player, banker = list(found["player"]), list(found["banker"])
    for card in found["forbidden"]:
        shown = result.get("player_cards", [])
        (player if [*player, card] == shown[: len(player) + 1] else banker).append(card)
    return {"player_cards": player, "banker_cards": banker}


def _laid(cards: list[str], found: dict[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """Both hands and what is forbidden, of a round's cards dealt at once."""
    player: list[str] = []
    banker: list[str] = []
    forbidden: list[str] = []
    both_thirds = found["is_irregular"] and len(cards) == 6
    for card in cards:
        whose = game.next_hand(player, banker)
        first_third = len(player) + len(banker) + len(forbidden) == 4
        if whose is None or (both_thirds and first_third and whose == "banker"):
            forbidden.append(card)
        else:
            (player if whose == "player" else banker).append(card)
    return player, banker, forbidden


def _bet_of(given: dict[str, Any]) -> dict[str, Any]:
    return {
        "account": given["account_id"],
        "kind": given["bet"],
        "stake": given["stake_minor"],
        "is_cancelled": False,
    }


def _corrected_bets(found: dict[str, Any], proposal: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The bets that are to hold, not yet settled."""
    if "void" in proposal:
        return {}
    if "bets" in proposal:
        return {bet["bet_id"]: _bet_of(bet) for bet in proposal["bets"]}
    return {bet_id: dict(bet) for bet_id, bet in found["bets"].items() if not bet["is_cancelled"]}


def _changes(found: dict[str, Any], proposal: dict[str, Any]) -> dict[str, Any]:
    """By the bet's id, what it was and what it becomes, where these differ."""
    hands = found["player"], found["banker"]
    if "cards" in proposal:
        hands = _laid(proposal["cards"], found)[:2]
    was = {bet_id: bet for bet_id, bet in found["bets"].items() if not bet["is_cancelled"]}
    becomes = _corrected_bets(found, proposal)
    for bet in becomes.values():
        bet["outcome"] = game.settled(bet["kind"], bet["stake"], hands, found["rules"])
    return {
        bet_id: (was.get(bet_id), becomes.get(bet_id))
        for bet_id in dict.fromkeys((*found["bets"], *becomes))
        if was.get(bet_id) != becomes.get(bet_id)
    }


def _stays(was: dict[str, Any] | None, becomes: dict[str, Any] | None) -> bool:
    """Whether the same account has the same stake on a bet."""
    if was is None or becomes is None:
        return False
    return (was["account"], was["stake"]) == (becomes["account"], becomes["stake"])


def _is_complete(found: dict[str, Any]) -> bool:
    return game.next_hand(found["player"], found["banker"]) is None


def _content(command: Command) -> Command:
    """What makes a command the same again: all that was given, the time as an instant."""
    at = _time(command.get("at"))
    return command if at is None else {**command, "at": at}


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)


def _differences(expected: Any, got: Any, place: str) -> list[str]:
    """Where an answer does not have what is expected; it may have more."""
    if isinstance(expected, dict) and isinstance(got, dict):
        return [
            fault
            for name, value in expected.items()
            for fault in _differences(value, got.get(name, "(missing)"), f"{place}.{name}")
        ]
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        return [
            fault
            for number, (one, other) in enumerate(zip(expected, got, strict=True))
            for fault in _differences(one, other, f"{place}[{number}]")
        ]
    if type(expected) is type(got) and expected == got:
        return []
    return [f"{place} is {got!r}; expected {expected!r}"]
