"""The README keeps its word: its commands run, and print what it says."""

import re
import subprocess
from pathlib import Path

import pytest

from scripts.readme import README, runner, stop_serving, with_outputs

TEXT = README.read_text()

# The README serves at one port, so its commands run once at a time.
pytestmark = pytest.mark.xdist_group("readme")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("readme")


@pytest.fixture(scope="module")
def run(folder):
    run = runner(folder, TEXT)
    yield run
    stop_serving(run)


def test_every_command_prints_what_the_readme_shows(run):
    assert with_outputs(TEXT, run) == TEXT


def test_the_query_of_the_readme_finds_the_commission(run):
    (query,) = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)
    with_outputs(TEXT, run)
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
