"""What a slot has and what a task asks for: Flink's ResourceProfile, in whole numbers; and what the host of a TaskManager has.

Sizes are bytes and processors are thousandths of a core, so that no state and no digest holds a fraction. A profile that nobody has
stated is None (Flink's UNKNOWN): every slot has room for a request without a profile, and a slot without one has room for no other.
`ResourceProfile`, `ExtendedResource` and `Hardware` mirror the schemas of the same names; a test holds the two together. What a host has is
what its TaskManager says, and is matched against nothing.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from eventflink.model.texts import beginning_of

MAX_AMOUNT: Final = 2**62
"""Of any size, amount or number of processors: every sum that is built of them fits into what Avro calls a long."""

MAX_EXTENDED_RESOURCES: Final = 16
"""In one profile."""

RESOURCE_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._/-]{0,63}")

_MAX_WRITTEN: Final = 64
"""How long the text of an amount may be; what is longer is not looked into."""

_MEMORY_SIZE: Final = re.compile(r"([0-9]{1,19})\s*([A-Za-z]*)")
_CPU_CORES: Final = re.compile(r"(?=\.?[0-9])([0-9]{0,16})(?:\.([0-9]{0,3})0*)?")
_UNITS: Final = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 1 << 40),
}
_MILLI: Final = 1_000


class InvalidResources(ValueError):
    """A resource that cannot be; the message says which and why."""


@dataclass(frozen=True, slots=True)
class ExtendedResource:
    """So many of something that has a name, such as a GPU."""

    name: str
    """What it is."""
    amount: int
    """How many."""


@dataclass(frozen=True, slots=True)
class ResourceProfile:
    """What one slot has, or what one subtask asks for."""

    cpu_millicores: int = 0
    """Processors, in thousandths of one."""
    task_heap_bytes: int = 0
    """Memory of the task's own objects."""
    task_off_heap_bytes: int = 0
    """Memory that the task takes elsewhere."""
    managed_bytes: int = 0
    """Memory that the runtime manages for the task."""
    extended_resources: tuple[ExtendedResource, ...] = ()
    """By name, in the order of the names, none of them 0."""

    @property
    def sort_key(self) -> tuple[object, ...]:
        """Return what profiles are ordered by, the smaller first: by the number of extended resources, then memory, then processors."""
        extended = tuple((e.name, e.amount) for e in self.extended_resources)
        return len(extended), self.total_bytes, self.cpu_millicores, self.task_heap_bytes, self.task_off_heap_bytes, extended

    @property
    def total_bytes(self) -> int:
        """The memory of all kinds."""
        return self.task_heap_bytes + self.task_off_heap_bytes + self.managed_bytes

    def contains(self, other: "ResourceProfile") -> bool:
        """Tell whether everything that the other one has is here, and at least as much of it."""
        if (
            self.cpu_millicores < other.cpu_millicores
            or self.task_heap_bytes < other.task_heap_bytes
            or self.task_off_heap_bytes < other.task_off_heap_bytes
            or self.managed_bytes < other.managed_bytes
        ):
            return False
        if not other.extended_resources:
            return True
        amounts = {each.name: each.amount for each in self.extended_resources}
        return all(amounts.get(each.name, 0) >= each.amount for each in other.extended_resources)

    def divided_by(self, slots: int) -> "ResourceProfile | None":
        """Return the share of one of so many equal slots, rounded down; None where nothing is left to speak of."""
        return profile_of(
            cpu_millicores=self.cpu_millicores // slots,
            task_heap_bytes=self.task_heap_bytes // slots,
            task_off_heap_bytes=self.task_off_heap_bytes // slots,
            managed_bytes=self.managed_bytes // slots,
            extended_resources=((each.name, each.amount // slots) for each in self.extended_resources),
        )

    def __str__(self) -> str:
        """Return it as messages show it, such as `cpu 0.5, task heap 512m`."""
        sizes = (
            ("task heap", self.task_heap_bytes),
            ("task off-heap", self.task_off_heap_bytes),
            ("managed", self.managed_bytes),
        )
        parts = [f"cpu {cores_of(self.cpu_millicores)}"] if self.cpu_millicores else []
        parts += [f"{name} {format_memory_size(size)}" for name, size in sizes if size]
        parts += [f"{each.name} {each.amount}" for each in self.extended_resources]
        return ", ".join(parts) or "nothing"


@dataclass(frozen=True, slots=True)
class Hardware:
    """The host of a TaskManager, as it found it when it started."""

    cpu_cores: int
    """Processors that it may run on."""
    physical_bytes: int
    """Memory of the host."""
    available_bytes: int
    """What new processes could have without swapping: tasks are processes of their own, and nothing is set aside for them."""


def sort_key_of(profile: ResourceProfile | None) -> tuple[bool, tuple[object, ...]]:
    """Return what profiles are ordered by, the smaller first; one that nobody has stated comes before all others."""
    return profile is not None, profile.sort_key if profile is not None else ()


def fits(offered: ResourceProfile | None, asked: ResourceProfile | None) -> bool:
    """Tell whether a slot with the profile `offered` has room for a request that asks for `asked`."""
    return asked is None or (offered is not None and offered.contains(asked))


def profile_of(
    *,
    cpu_millicores: int,
    task_heap_bytes: int,
    task_off_heap_bytes: int,
    managed_bytes: int,
    extended_resources: Iterable[tuple[str, int]],
) -> ResourceProfile | None:
    """Return the one spelling of a profile; None if it says nothing.

    Raises:
        InvalidResources: an amount is out of its bounds, a name is not valid, or stands there twice.

    """
    amounts: dict[str, int] = {}
    for name, amount in extended_resources:
        if not RESOURCE_NAME.fullmatch(name):
            raise InvalidResources(
                f"'{name[:80]}' is not a resource's name: letters, digits and . _ / -, at most 64, beginning with a letter"
            )
        if name in amounts:
            raise InvalidResources(f"the resource '{name}' is given twice")
        amounts[name] = amount
    if len(amounts) > MAX_EXTENDED_RESOURCES:
        raise InvalidResources(f"{len(amounts)} extended resources are more than the {MAX_EXTENDED_RESOURCES} that a profile may have")
    sizes = {"cpu": cpu_millicores, "task heap": task_heap_bytes, "task off-heap": task_off_heap_bytes, "managed": managed_bytes}
    for name, amount in {**sizes, **amounts}.items():
        if not 0 <= amount <= MAX_AMOUNT:
            raise InvalidResources(f"{name}: {beginning_of(amount)} is not between 0 and {MAX_AMOUNT}")
    extended = tuple(ExtendedResource(name, amount) for name, amount in sorted(amounts.items()) if amount)
    if not any(sizes.values()) and not extended:
        return None
    return ResourceProfile(cpu_millicores, task_heap_bytes, task_off_heap_bytes, managed_bytes, extended)


def sum_of(profiles: Iterable[ResourceProfile | None]) -> ResourceProfile | None:
    """Return what there has to be for all of these at once; None if none of them asks for anything.

    Raises:
        InvalidResources: the sum of an amount, or how many extended resources there are in all, is out of bounds.

    """
    asked = [profile for profile in profiles if profile is not None]
    extended: dict[str, int] = {}
    for profile in asked:
        for each in profile.extended_resources:
            extended[each.name] = extended.get(each.name, 0) + each.amount
    return profile_of(
        cpu_millicores=sum(p.cpu_millicores for p in asked),
        task_heap_bytes=sum(p.task_heap_bytes for p in asked),
        task_off_heap_bytes=sum(p.task_off_heap_bytes for p in asked),
        managed_bytes=sum(p.managed_bytes for p in asked),
        extended_resources=extended.items(),
    )


def total_of(slots: Iterable[tuple[ResourceProfile | None, int]]) -> ResourceProfile | None:
    """Return what so many slots of each profile have together, which may be beyond the bounds of one profile; None: no profile was said."""
    known = [(profile, count) for profile, count in slots if profile is not None]
    if not known:
        return None
    extended = Counter[str]()
    for profile, count in known:
        extended.update({each.name: count * each.amount for each in profile.extended_resources})
    return ResourceProfile(
        cpu_millicores=sum(count * profile.cpu_millicores for profile, count in known),
        task_heap_bytes=sum(count * profile.task_heap_bytes for profile, count in known),
        task_off_heap_bytes=sum(count * profile.task_off_heap_bytes for profile, count in known),
        managed_bytes=sum(count * profile.managed_bytes for profile, count in known),
        extended_resources=tuple(ExtendedResource(name, amount) for name, amount in sorted(extended.items())),
    )


def checked_profile(profile: ResourceProfile | None) -> ResourceProfile | None:
    """Return the one spelling of a profile that came from outside.

    Raises:
        InvalidResources: it is not one.

    """
    if profile is None:
        return None
    return profile_of(
        cpu_millicores=profile.cpu_millicores,
        task_heap_bytes=profile.task_heap_bytes,
        task_off_heap_bytes=profile.task_off_heap_bytes,
        managed_bytes=profile.managed_bytes,
        extended_resources=((each.name, each.amount) for each in profile.extended_resources),
    )


def parse_memory_size(value: object) -> int:
    """Return the bytes of a size as Flink writes it: `512m`, `1 gb`, `1024`.

    Raises:
        InvalidResources: it is not one.

    """
    text = _written(value)
    match = _MEMORY_SIZE.fullmatch(text)
    unit = _UNITS.get(match[2].lower()) if match is not None else None
    if match is None or unit is None:
        raise InvalidResources(f"'{beginning_of(value)}' is not a size: a whole number with b, k, m, g or t behind it, such as 512m")
    size = int(match[1]) * unit
    if size > MAX_AMOUNT:
        raise InvalidResources(f"{text} is more than {MAX_AMOUNT} bytes")
    return size


def _written(value: object) -> str:
    """Return an amount as a text that is safe to look into; empty: it is none."""
    if isinstance(value, str):
        return value.strip() if len(value) <= _MAX_WRITTEN else ""
    # Of a number with more digits than any amount no text is made: Python writes none of thousands of digits. NaN is between no two.
    is_short = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 10 * MAX_AMOUNT
    return str(value) if is_short else ""


def format_memory_size(size: int) -> str:
    """Return a size in its largest whole unit, such as `512m`."""
    for unit in ("t", "g", "m", "k"):
        if size and size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit}"
    return str(size)


def parse_cpu_cores(value: object) -> int:
    """Return the thousandths of a number of processors: `2`, `0.5`.

    Raises:
        InvalidResources: it is not one, or has more than three decimals.

    """
    match = _CPU_CORES.fullmatch(_written(value))
    millicores = int(match[1] or "0") * _MILLI + int((match[2] or "").ljust(3, "0")) if match is not None else None
    if millicores is None or millicores > MAX_AMOUNT:
        raise InvalidResources(
            f"'{beginning_of(value)}' is not a number of processors: at least 0, with at most three decimals, such as 2 or 0.5"
        )
    return millicores


def cores_of(millicores: int) -> str:
    """Return thousandths of a processor as a number of processors, exactly."""
    whole, thousandths = divmod(millicores, _MILLI)
    return f"{whole}.{thousandths:03}".rstrip("0") if thousandths else str(whole)


def parse_extended_resources(value: object) -> tuple[tuple[str, int], ...]:
    """Return names and amounts of a text such as `gpu=2,fpga=1`.

    Raises:
        InvalidResources: it is not one.

    """
    if not isinstance(value, str):
        raise InvalidResources(f"'{str(value)[:40]}' is not a list of resources, such as gpu=2,fpga=1")
    pairs = []
    for part in filter(None, (part.strip() for part in value.split(","))):
        name, separator, amount = (piece.strip() for piece in part.partition("="))
        if not separator or not re.fullmatch(r"[0-9]{1,19}", amount):
            raise InvalidResources(f"'{part[:80]}' is not of the form name=amount, such as gpu=2")
        pairs.append((name, int(amount)))
    return tuple(pairs)
