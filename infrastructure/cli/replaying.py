"""A replayed round, and the events of a stream, for people."""

from typing import Any

from rich.text import Text

from infrastructure.cli.output import cards, console, moment, money, print_rows


def print_replay(replayed: dict[str, Any]) -> None:
    """Prints a round step by step, what its bets came to, and what is wrong with it."""
    console.print(
        f"[bold]Round {replayed['round_id']}[/bold] of shoe {replayed['shoe_id']} at table "
        f"{replayed['table_id']}: {replayed['state']}, version {replayed['version']}",
        soft_wrap=True,
    )
    currency = next((step["currency"] for step in replayed["steps"] if "currency" in step), None)
    for step in replayed["steps"]:
        console.print(step_line(step, currency), soft_wrap=True)
    for hand in ("player", "banker"):
        line = Text(f"{hand.capitalize()}  ")
        line.append_text(cards(replayed[hand]["cards"]))
        total = replayed[hand]["total"]
        line.append("" if total is None else f"  = {total}", style="bold")
        console.print(line)
    if replayed["outcome"] is not None:
        console.print(f"Outcome {replayed['outcome']}", style="bold")
    # Without its opening, of which only a damaged round is, a round has no currency.
    if replayed["bets"] and currency is not None:
        _print_bets("Bets", replayed["bets"])
        first = replayed["first_settled"]
        if first is not None:
            _print_bets(f"Bets as first settled, outcome {first['outcome']}", first["bets"])
    for finding in replayed["findings"]:
        console.print(Text(f"{finding['code']}: {finding['detail']}", style="bold red"))
    if not replayed["findings"]:
        console.print("No finding", style="green")


_SHOWN_APART = {"version", "event", "at", "actor", "key", "rule", "rules"}
_HANDS = {"player", "banker"}
_BY_SOMEBODY = {"round.correction_proposed", "round.correction_rejected", "round.corrected"}
_SPEAKS_FOR_ITSELF = {"hand", "bet", "result", "outcome", "reason"}


def step_line(step: dict[str, Any], currency: str | None) -> Text:
    """One event on one line; amounts of no known currency stay as they were stored."""
    line = Text(f"{step['version']:>4}  {moment(step['at'])}  {step['event']}")
    for name, value in step.items():
        if name in _SHOWN_APART:
            continue
        if name == "card":
            line.append(" ").append_text(cards([value]))
        elif name == "cards":
            line.append(" ").append_text(cards(value))
        elif name in _HANDS:
            line.append(f" {name} ").append_text(cards(value))
        elif name == "bets":
            line.append(f" {'; '.join(_held(bet, currency) for bet in value) or 'no bets'}")
        elif name.endswith("_minor") and currency is not None:
            line.append(f" {name.removesuffix('_minor')} {money(value, currency)}")
        else:
            line.append(f" {value}" if name in _SPEAKS_FOR_ITSELF else f" {name}={value}")
    if step["event"] in _BY_SOMEBODY:
        line.append(f" by {step['actor']}")
    if "rule" in step:
        line.append(f" ({step['rule']})", style="italic")
    return line


def _held(bet: dict[str, Any], currency: str | None) -> str:
    """A bet as a correction says that it holds."""
    stake = bet["stake_minor"] if currency is None else money(bet["stake_minor"], currency)
    return f"{bet['bet_id']} of {bet['account_id']} on {bet['bet']} {stake}"


def _print_bets(title: str, bets: list[dict[str, Any]]) -> None:
    print_rows(
        title,
        (
            ("bet", lambda bet: bet["bet_id"]),
            ("account", lambda bet: bet["account_id"]),
            ("on", lambda bet: bet["bet"]),
            ("stake", lambda bet: money(bet["stake_minor"], bet["currency"])),
            ("result", lambda bet: bet["result"]),
            ("win", lambda bet: money(bet["win_minor"], bet["currency"])),
            ("commission", lambda bet: money(bet["commission_minor"], bet["currency"])),
        ),
        bets,
    )
