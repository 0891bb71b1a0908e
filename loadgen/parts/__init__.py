"""The real servers that load runs, demonstrations and tests need: found, or provided without touching the system.

Only the standard library is imported from here, because `scripts/setup` runs on a machine where nothing else is
installed yet.
"""

from loadgen.parts.catalogue import PARTS, DebianPart, GoPart, Part, WheelPart
from loadgen.parts.errors import PartUnavailable
from loadgen.parts.provide import ensure_part, find_part

__all__ = ["PARTS", "DebianPart", "GoPart", "Part", "PartUnavailable", "WheelPart", "ensure_part", "find_part"]
