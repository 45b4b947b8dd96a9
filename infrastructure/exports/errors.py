"""What stops an export."""


class ExportRefused(Exception):  # noqa: N818 - it says what happened, as Refused does
    """An export or its verification cannot be done as asked. The message is one line."""
