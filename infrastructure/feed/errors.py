"""Why a feed stops. Each message is one line for the user."""

# ruff: noqa: N818 (each is named after what is the case, and is caught as a FeedError)


class FeedError(Exception):
    """The feed cannot go on as asked."""


class SinkAway(FeedError):
    """Downstream does not answer; what was sent may have arrived, and trying again may help."""


class Outrun(FeedError):
    """Downstream holds more than was thought, and nothing of the last batch."""
