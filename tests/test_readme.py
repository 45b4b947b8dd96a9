"""The README keeps its word: its commands run, and print what it says."""

import re
import subprocess
from pathlib import Path

import pytest

from scripts.readme import README, runner, stop_serving, with_outputs

TEXT = README.read_text()


@pytest.fixture
def run(tmp_path):
    run = runner(tmp_path, TEXT)
    yield run
    stop_serving(run)


# One test, for the README serves at one port and a second run would take as long again.
def test_every_command_prints_what_the_readme_shows_and_its_query_finds_the_commission(run):
    assert with_outputs(TEXT, run) == TEXT
    queries = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)
    (query,) = [query for query in queries if "ledger." in query]
    status = run(f"python - <<'SQL'\n{_ask(query)}\nSQL")
    assert status.strip() == "('account:alice', 'account.commission_charged', '500')"


def _ask(query: str) -> str:
    return f"""
from infrastructure.settings import load_settings
from infrastructure.store.connection import open_database
with open_database(load_settings()) as database, database.connect() as connection:
    for row in connection.execute({query!r}):
        print(row)
"""


def test_the_two_commands_of_a_newcomer_are_make_targets_that_do_it():
    for target, command in (("demo", "punto demo"), ("test", "pytest"), ("check", "mypy")):
        planned = subprocess.run(
            ["make", "--dry-run", "--always-make", target],
            cwd=README.parent,
            capture_output=True,
            text=True,
            check=True,
        )
        assert command in planned.stdout


def test_every_page_that_the_readme_links_is_there():
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", TEXT):
        assert (Path(README.parent) / link).exists(), link
