"""What the environment says, read and validated once."""

import os
from pathlib import Path

import platformdirs
from eventsourcing.utils import strtobool
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

DATABASE_FUNCTIONS = "POSTGRES_ENABLE_DB_FUNCTIONS"


class SettingsError(Exception):
    """The environment cannot be worked with. The message is one line for the user."""


def _default_home() -> Path:
    # A system user runs the server for root, and data of a service has its place.
    if os.geteuid() == 0:
        return Path("/var/lib/puntobanco")
    return Path(platformdirs.user_data_dir("puntobanco"))


class Settings(BaseSettings):
    """The settings of one run, each under its name with `PUNTO_` before it in the environment.

    `nats_url` and `nats_stream` are where the feed publishes to, if anywhere.
    """

    model_config = SettingsConfigDict(
        env_prefix="PUNTO_",
        env_ignore_empty=True,
        frozen=True,
        # A rejected value may hold a password.
        hide_input_in_errors=True,
    )

    database_url: SecretStr | None = None
    home: Path = Field(default_factory=_default_home)
    nats_url: SecretStr | None = None
    nats_stream: str = "LEDGER"

    @field_validator("database_url", mode="after")
    @classmethod
    def _blank_means_unset(cls, url: SecretStr | None) -> SecretStr | None:
        return url if url is not None and url.get_secret_value().strip() else None

    @field_validator("home", mode="after")
    @classmethod
    def _home_is_a_directory(cls, home: Path) -> Path:
        try:
            # Absolute at once, so that a later change of directory moves no data.
            home = home.expanduser().absolute()
        except RuntimeError:
            raise ValueError(f"there is no home directory for {home.parts[0]}") from None
        if home.exists() and not home.is_dir():
            raise ValueError(f"{home} is not a directory")
        return home

    @model_validator(mode="after")
    def _no_database_functions(self) -> "Settings":
        for name, value in os.environ.items():
            # The library reads the name alone and behind any application's name.
            if name != DATABASE_FUNCTIONS and not name.endswith(f"_{DATABASE_FUNCTIONS}"):
                continue
            try:
                enabled = strtobool(value or "no")
            except ValueError:
                raise ValueError(f"{name} is neither yes nor no: unset it") from None
            if enabled:
                raise ValueError(
                    f"{name} is on, and those functions insert without a lock, so that a reader"
                    " who follows the log would miss events: unset it"
                )
        return self


def load_settings() -> Settings:
    """The settings of this process, or a `SettingsError` with one line that says what is wrong."""
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        reason = first["msg"].removeprefix("Value error, ")
        name = "".join(f"PUNTO_{part}: ".upper() for part in first["loc"])
        raise SettingsError(f"{name}{reason}") from None
