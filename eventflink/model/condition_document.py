"""The part of a JobGraph document that says when a vertex runs, and every check of it that a vertex alone allows.

What conditions mean is in `conditions.py`. An output is written as `vertex`, or as `vertex.output` where it is not the default one.

    when: {rows_of: new_orders}
    when: {no_rows_of: orders.large}
"""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from eventflink.model.conditions import condition_key, output_text
from eventflink.model.document_fields import NAME_PART
from eventflink.model.job_graph import DEFAULT_OUTPUT, RowCondition

OutputName = Annotated[str, Field(pattern=rf"^{NAME_PART}(\.{NAME_PART})?$")]


class ConditionDocument(BaseModel):
    """When a vertex runs that may be skipped: exactly one of `rows_of` and `no_rows_of`."""

    model_config = ConfigDict(extra="forbid")

    rows_of: OutputName | None = None
    """It runs when this output has rows."""
    no_rows_of: OutputName | None = None
    """It runs when this output has none."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.rows_of is None) == (self.no_rows_of is None):
            raise ValueError("exactly one of 'rows_of' and 'no_rows_of' says by which output it is decided whether the vertex runs")
        return self

    def to_record(self) -> RowCondition:
        """Return the core's record."""
        source, _, output = (self.rows_of or self.no_rows_of or "").partition(".")
        return RowCondition(source=source, output=output or DEFAULT_OUTPUT, has_rows=self.rows_of is not None)


def condition_document(condition: RowCondition) -> dict[str, Any]:
    """Return the document of a condition."""
    return {condition_key(condition): output_text(condition.source, condition.output)}
