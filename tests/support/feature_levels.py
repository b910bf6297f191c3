"""An invented feature level: these masters know a level 2, which added an event and a field, and those do not.

What the level added are an event and a field of today, so that the real rules and the real schemas are at work: the first
release of the Decision is today's without them. A rule that decides a newer event asks for the level, as `LaterMaster` does.
"""

from typing import Any, Final

import fastavro

from docs.generate.schemas import Document, documents, inlined
from eventflink.events.codec import DecisionCodec
from eventflink.events.inputs import DrillStep
from eventflink.events.log_events import LogEvent
from eventflink.events.schemas import NAMESPACE, WriterSchemas
from eventflink.leadership.fold import Fold
from eventflink.master.inputs import MasterInput
from eventflink.master.master import Master
from eventflink.master.requests import rejected
from eventflink.master.settings import MasterSettings

ADDED_EVENT: Final = "DrillStepOrdered"
ADDED_FIELD: Final = ("TaskManagerRegistered", "metrics_address")
ADDED_LEVEL: Final = 2


def registry(name: str, older: Document, newer: Document) -> WriterSchemas:
    """Return a registry of two releases, the newer one today's."""
    first, second = (fastavro.parse_schema(document, named_schemas={}) for document in (older, newer))
    return WriterSchemas(name, second, (first, second))


def _without_additions(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_additions(item) for item in node if not (isinstance(item, dict) and item.get("name") == ADDED_EVENT)]
    if not isinstance(node, dict):
        return node
    record, field = ADDED_FIELD
    made = {key: _without_additions(value) for key, value in node.items()}
    if made.get("name") == record:
        made["fields"] = [f for f in made["fields"] if f["name"] != field]
    return made


_TODAY: Final = inlined(documents(), "Decision")
LATER: Final = DecisionCodec(registry("Decision", _without_additions(_TODAY), _TODAY))
"""Of the version that knows both levels."""
EARLIER: Final = DecisionCodec(WriterSchemas("Decision", LATER.registry.releases[0], LATER.registry.releases[:1]))
"""Of the version before it."""
assert any(branch["name"] == f"{NAMESPACE}.{ADDED_EVENT}" for branch in LATER.registry.current["fields"][-2]["type"]["items"])


class LaterMaster(Master):
    """The state and the rules of the later version."""

    def decide(self, value: MasterInput, now_ms: int, leader_id: str = "") -> list[LogEvent]:
        if isinstance(value, DrillStep) and self.upkeep.feature_level < ADDED_LEVEL:
            return [rejected(value, "FeatureLevelTooLow", f"the feature level is {self.upkeep.feature_level}")]
        return super().decide(value, now_ms, leader_id)


def later_fold(settings: MasterSettings | None = None) -> Fold:
    """Return the fold of the later version before the first record."""
    return Fold(LaterMaster(settings or MasterSettings()), LATER)


def earlier_fold(settings: MasterSettings | None = None) -> Fold:
    """Return the fold of the version before it before the first record."""
    return Fold(Master(settings or MasterSettings()), EARLIER)
