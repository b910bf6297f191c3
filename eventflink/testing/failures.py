"""What a test is told when something did not come as it should: sentences, for whoever reads a failed test."""


class Unexpected(AssertionError):
    """Something did not happen in time, or something else did; the message says what was waited for and what was there instead."""


class CannotCrash(Exception):
    """What a test wants to crash is not there, or not the plugin's to crash; nothing was done."""


class ClusterNotStarted(Exception):
    """The cluster of a test did not come up; the message says which process ended, with the last lines of its log."""
