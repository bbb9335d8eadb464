"""The errors that are the caller's to mend."""


class BadInputError(Exception):
    """Something given to nextclick cannot be used.

    The message names the file, the line or the field, and says the way out. The command line prints
    it and exits with 2, the service answers with a 4xx; any other exception is a defect of ours.

    Examples
    --------
    >>> raise BadInputError("clicks.csv: no column 'session_id'")
    Traceback (most recent call last):
        ...
    nextclick.errors.BadInputError: clicks.csv: no column 'session_id'
    """


class NoSpaceError(BadInputError):
    """There is no space left on the disk for what was to be written; nothing of it was."""
