"""The part of a JobGraph document that says how often a failed task is tried again: rules by the type or the kind of a failure.

retries:
- {errors: [HTTPError, TimeoutError], attempts: 5, delay: 10s}
- {errors: [data], attempts: 0}
- {attempts: 1}
"""

from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from eventflink.model.document_faults import describe_value
from eventflink.model.document_fields import Number, Whole, duration_within
from eventflink.model.durations import duration_text
from eventflink.model.failure_types import FailureKind
from eventflink.model.job_graph import MAX_RESTART_DELAY_MS, RetryRule
from eventflink.model.texts import did_you_mean

MAX_RULES: Final = 16
_DEFAULT_MAX_DELAY_MS: Final = 300_000


_Delay = Annotated[int, duration_within(0, MAX_RESTART_DELAY_MS)]
_KINDS_OF_FAILURES: Final = tuple([str(kind) for kind in FailureKind])


class RetryDocument(BaseModel):
    """For which failures an attempt of a vertex is followed by another one, how often, and when."""

    model_config = ConfigDict(extra="forbid")

    errors: list[Annotated[str, Field(pattern=r"^[A-Za-z_][\w$]*(\.[A-Za-z_][\w$]*)*$", max_length=256)]] = Field(
        default_factory=list, max_length=64
    )
    """Types of failures, such as `HTTPError`, or kinds of them, such as `data`; default: all that no other rule names."""
    attempts: Whole = Field(ge=0, le=1_000_000)
    """How many further attempts a subtask has by this rule."""
    delay: _Delay = 1_000
    max_delay: _Delay | None = None
    multiplier: Number = Field(2.0, ge=1.0, le=1_000.0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _check(self) -> Self:
        for error in self.errors:
            if error.islower() and "." not in error and error not in _KINDS_OF_FAILURES:
                kinds = ", ".join(_KINDS_OF_FAILURES)
                raise ValueError(
                    f"errors: unknown kind of failure '{error}'{did_you_mean(error, _KINDS_OF_FAILURES)}; there are {kinds}, and types "
                    "of failures, such as HTTPError; a type in small letters is named with its module, such as socket.gaierror"
                )
        if self.max_delay is not None and self.max_delay < self.delay:
            raise ValueError("'max_delay' is shorter than 'delay', the first wait")
        return self

    def to_record(self) -> RetryRule:
        """Return the core's record."""
        return RetryRule(
            errors=tuple(self.errors),
            attempts=self.attempts,
            delay_ms=self.delay,
            max_delay_ms=self.max_delay if self.max_delay is not None else max(_DEFAULT_MAX_DELAY_MS, self.delay),
            multiplier=self.multiplier,
        )


def _retries(written: object) -> object:
    """Return the rules that a number of attempts alone is short for."""
    if isinstance(written, int) and not isinstance(written, bool):
        return [{"attempts": written}]
    if isinstance(written, list):
        return written
    raise ValueError(f"must be a list of rules, or how many further attempts there are, not {describe_value(written)}")


def _check_rules(rules: list[RetryDocument]) -> list[RetryDocument]:
    if sum(not rule.errors for rule in rules) > 1:
        raise ValueError("two rules have no 'errors', and each is for all failures that no other rule names")
    return rules


Retries = Annotated[list[RetryDocument], Field(max_length=MAX_RULES), BeforeValidator(_retries), AfterValidator(_check_rules)]
"""The rules; a number alone is how many further attempts there are, of whatever one failed."""


def retry_document(rule: RetryRule) -> dict[str, Any]:
    """Return the document that becomes this rule."""
    document: dict[str, Any] = {"errors": list(rule.errors), "attempts": rule.attempts, "multiplier": rule.multiplier}
    return document | {"delay": duration_text(rule.delay_ms), "max_delay": duration_text(rule.max_delay_ms)}
