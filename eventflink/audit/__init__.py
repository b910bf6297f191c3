"""What can go wrong when somebody asks the log, one type per outcome. Nothing is imported here, so that naming them costs nothing."""


class LogFaulty(Exception):
    """A record of the log cannot be read or folded; the message names it."""


class FilterInvalid(Exception):
    """A filter names what does not exist, or is no offset and no time."""


class QueryInvalid(Exception):
    """The query cannot be answered; the message is the engine's own."""


class NothingKnown(Exception):
    """No thing in the log has the id, or several begin with it; the message names the nearest."""
