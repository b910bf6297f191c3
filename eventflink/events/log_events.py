"""Every event that a decision can hold: what happened, in the past tense. The classes stand with the component that they belong to.

Events are values: nobody changes one after it was made (they are not frozen only because freezing triples the cost of a
replay). The schemas of the same names are made of these classes.
"""

from collections.abc import Mapping
from typing import Final

from eventflink.events.checkpoint_events import *
from eventflink.events.decision import LogEvent as LogEvent
from eventflink.events.dispatcher_events import *
from eventflink.events.job_master_events import *
from eventflink.events.master_events import *
from eventflink.events.resource_manager_events import *
from eventflink.events.schedule_events import *
from eventflink.events.slot_manager_events import *
from eventflink.events.upkeep_events import *

EVENTS: Final[Mapping[str, type[LogEvent]]] = {
    name: cls for name, cls in tuple(globals().items()) if isinstance(cls, type) and issubclass(cls, LogEvent) and not cls.__subclasses__()
}
"""Every event by its name."""
