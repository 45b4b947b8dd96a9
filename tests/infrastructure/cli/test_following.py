"""`punto rounds --follow` shows each round as it ends."""

import json
import signal


def test_rounds_that_end_later_are_shown_once_and_in_order(punto, start_punto):
    punto("simulate", "--seats", "1", "--seed", "5", "--shoes", "1")
    following = start_punto("rounds", "--limit", "1", "--follow", "--json")
    newest = json.loads(following.stdout.readline())
    played = punto("simulate", "--seats", "1", "--seed", "6", "--json").document

    lines = [json.loads(following.stdout.readline()) for _ in range(played["rounds"])]
    following.send_signal(signal.SIGINT)
    rest, complaint = following.communicate(timeout=20)

    assert newest["round_id"].startswith("sim5-")
    assert lines == punto("rounds", "--table", "sim6-T1", "--json").lines
    assert complaint.startswith(b"punto: Stopped."), complaint
    assert (rest, following.returncode) == (b"", 130)


def test_a_round_that_was_called_off_ends_too(punto, start_punto):
    commands = [
        {"command": "open_table", "key": "1", "table_id": "T", "currency": "USD"},
        {"command": "open_shoe", "key": "2", "shoe_id": "S", "table_id": "T", "source": "physical"},
        {"command": "open_round", "key": "3", "round_id": "R", "shoe_id": "S"},
        {"command": "void_round", "key": "4", "round_id": "R", "reason": "misdeal"},
    ]
    punto.run(commands[:3])
    following = start_punto("rounds", "--table", "T", "--follow", "--json")
    before = json.loads(following.stdout.readline())
    punto.run(commands[3:])
    after = json.loads(following.stdout.readline())

    assert (before["round_id"], before["state"]) == ("R", "betting")
    assert (after["round_id"], after["state"]) == ("R", "void")


def test_whoever_follows_goes_on_where_its_connection_was_ended(punto, start_punto, sql):
    punto("simulate", "--seats", "1", "--seed", "5", "--shoes", "1")
    following = start_punto("rounds", "--limit", "1", "--follow", "--json")
    following.stdout.readline()
    (ended,) = sql("""
        SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 10000))
          FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = 'punto'
    """)
    played = punto("simulate", "--seats", "1", "--seed", "6", "--json").document

    lines = [json.loads(following.stdout.readline()) for _ in range(played["rounds"])]
    following.send_signal(signal.SIGINT)
    _, complaint = following.communicate(timeout=20)

    assert ended == (1,)
    assert lines == punto("rounds", "--table", "sim6-T1", "--json").lines
    assert complaint.startswith(b"The store is away, and the rounds go on when it is back: "), (
        complaint
    )
