"""What a new user sees first."""

import re

import pytest
import typer

from infrastructure.cli.main import app

GROUPS = ("db", "key", "reconcile")
COMMANDS = [
    *((name,) for name in typer.main.get_command(app).commands if name not in GROUPS),
    ("db", "grant"),
    ("db", "upgrade"),
    ("key", "create"),
    ("key", "list"),
    ("key", "revoke"),
    ("parked", "retry"),
    ("reconcile", "commission"),
]


def test_the_help_lists_every_command(punto):
    ran = punto("--help")
    assert (ran.code, ran.err) == (0, "")
    for command in COMMANDS:
        assert re.search(rf"\b{command[0]}\b", ran.out)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_help_of_a_command_has_an_example_that_can_be_run(punto, command):
    ran = punto(*command, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert punto(*command, "-h").out == ran.out
    (example,) = re.findall(r"Example: punto (.*?)\s*$", ran.out, re.MULTILINE)
    assert tuple(example.split()[: len(command)]) == command
    for option in re.findall(r"--[\w-]+", example):
        assert option in ran.out.replace(example, "")


def test_no_argument_is_asked_for_by_a_name_in_lower_case(punto):
    for command in COMMANDS:
        usage = re.findall(r"Usage: .*", punto(*command, "--help").out)
        assert not re.search(r"\{[a-z]", usage[0]), usage


def test_a_bug_is_reported_in_one_line_with_a_file_and_no_traceback(punto_process, tmp_path):
    broken = tmp_path / "sitecustomize.py"
    broken.write_text("import projections.tables as t\nt.tables = lambda *_: 1 / 0\n")
    ran = punto_process("tables", PYTHONPATH=str(tmp_path), TMPDIR=str(tmp_path))
    assert ran.code == 2
    assert ran.out == ""
    (line,) = ran.err.splitlines()
    assert line.startswith("punto: This is a bug in punto (ZeroDivisionError: division by zero)")
    (report,) = tmp_path.glob("punto-*.txt")
    assert str(report) in line
    assert "ZeroDivisionError" in report.read_text()


def test_whoever_reads_an_answer_may_leave_before_its_end(start_punto, punto, played):
    for arguments in (("rounds",), ("rounds", "--json"), ("events", "round:R1"), ("--help",)):
        process = start_punto(*arguments)
        process.stdout.close()
        complaint = process.stderr.read()
        assert (process.wait(60), complaint) == (0, b""), arguments


def test_the_version_is_told(punto):
    ran = punto("--version")
    assert (ran.code, ran.out.split()[0]) == (0, "punto")
