"""What every group of keys is: a frozen model that knows its fields by the dotted key, and no other key."""

import re
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict

from eventflink.model.resources import parse_memory_size

FACTORY_PATTERN: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

MemorySize = Annotated[int, BeforeValidator(parse_memory_size)]


class Keys(BaseModel):
    """A group of keys of eventflink.yaml."""

    # A group alone is never validated: only the whole configuration builds a validator, when it is read.
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)
