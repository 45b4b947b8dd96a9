"""The settings: what they take from the environment and what they refuse."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from infrastructure.settings import Settings, SettingsError, load_settings


def test_the_database_url_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUNTO_DATABASE_URL", "postgresql://dealer:secret@pit/ledger")
    url = load_settings().database_url
    assert url is not None
    assert url.get_secret_value() == "postgresql://dealer:secret@pit/ledger"


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_database_url_is_none(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("PUNTO_DATABASE_URL", value)
    assert load_settings().database_url is None


def test_a_password_is_not_shown_with_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUNTO_DATABASE_URL", "postgresql://dealer:secret@pit/ledger")
    assert "secret" not in repr(load_settings())


def test_the_home_comes_from_the_environment_and_is_absolute(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PUNTO_HOME", "ledger")
    assert load_settings().home == tmp_path / "ledger"


def test_a_tilde_in_the_home_is_the_users_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PUNTO_HOME", "~/ledger")
    assert load_settings().home == tmp_path / "ledger"


def test_the_home_of_root_is_that_of_a_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert load_settings().home == Path("/var/lib/puntobanco")


def test_the_home_of_anybody_else_is_below_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    home = load_settings().home
    assert home.name == "puntobanco"
    assert home.is_relative_to(tmp_path)


def test_a_home_that_is_a_file_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("PUNTO_HOME", str(file))
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert str(refused.value) == f"PUNTO_HOME: {file} is not a directory"


def test_the_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        Settings().home = Path("/elsewhere")  # type: ignore[misc]


@pytest.mark.parametrize(
    "name", ["POSTGRES_ENABLE_DB_FUNCTIONS", "CASINO_POSTGRES_ENABLE_DB_FUNCTIONS"]
)
@pytest.mark.parametrize("value", ["y", "Yes", "t", "true", "ON", "1"])
def test_database_functions_of_the_library_are_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=f"^{name} is on.*without a lock.*unset it$"):
        load_settings()


@pytest.mark.parametrize("value", ["", "n", "no", "FALSE", "off", "0"])
def test_database_functions_that_are_off_are_fine(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("POSTGRES_ENABLE_DB_FUNCTIONS", value)
    load_settings()


def test_database_functions_that_are_neither_on_nor_off_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("POSTGRES_ENABLE_DB_FUNCTIONS", "maybe")
    with pytest.raises(SettingsError, match="neither yes nor no"):
        load_settings()
