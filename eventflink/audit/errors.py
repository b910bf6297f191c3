"""What can go wrong when somebody asks the log, one type per outcome. Nothing is imported here, so that naming them costs nothing."""


class AuditError(Exception):
    """A question was not answered; the message says why."""


class LogFaulty(AuditError):
    """A record of the log cannot be read or folded; the message names it."""


class FilterInvalid(AuditError):
    """A filter names what does not exist, or is no offset and no time."""


class QueryInvalid(AuditError):
    """The query cannot be answered; the message is the engine's own."""


class NothingKnown(AuditError):
    """No thing in the log has the id, or several begin with it; the message names the nearest."""
