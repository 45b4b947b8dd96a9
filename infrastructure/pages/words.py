"""What the pages call things that have a name in lower case and underscores in the ledger."""

_BETS = {
    "dragon7": "Dragon 7",
    "panda8": "Panda 8",
    "lucky6": "Lucky 6",
}


def bet_name(kind: str) -> str:
    """What a bet is on: `Banker`, `Player pair`."""
    return _BETS.get(kind, spoken(kind))


def spoken(name: str) -> str:
    """A code as a person reads it: `payout_mismatch` is `Payout mismatch`."""
    return name.replace("_", " ").capitalize()


def event_name(topic: str) -> str:
    """An event without its aggregate: `account.stake_placed` is `Stake placed`."""
    return spoken(topic.rpartition(".")[2])
