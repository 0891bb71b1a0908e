"""The steps of one request, for `explain`: the same walk as everyone's, written down."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Step:
    """One step: a name from a small set (`rule`, `tick`, `promql`, `raw`, `selection`, ...) and what was seen."""

    name: str
    detail: str


@dataclass(slots=True)
class Trace:
    """Collects steps in the order in which they were taken."""

    steps: list[Step] = field(default_factory=list)

    def note(self, name: str, detail: str) -> None:
        """Write down one step."""
        self.steps.append(Step(name, detail))
