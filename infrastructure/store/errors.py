"""Why the store cannot be used. Each message is one line for the user."""

# ruff: noqa: N818 (each is named after what is the case, and is caught as a StoreError)


class StoreError(Exception):
    """The store cannot be used as asked."""


class StoreUnavailable(StoreError):
    """No server answers, or it lets nobody in; trying again later may help."""


class SchemaOutdated(StoreError):
    """The schema is older than this program: `punto db upgrade` is needed."""


class SchemaUnknown(StoreError):
    """The schema is newer than this program."""


class HistoryUnprotected(StoreError):
    """The guard of the events is missing, off or in the wrong hands."""


class SetupNotAllowed(StoreError):
    """There is no schema, and this role may not make it or was not asked to."""


NOT_INSTALLED = (
    "There is no embedded PostgreSQL: pip install 'puntobanco[embedded]' or set PUNTO_DATABASE_URL"
)


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    return (str(error).splitlines() or [type(error).__name__])[0]
