"""Why a part is not there, and what to do about it."""


class PartUnavailable(Exception):
    """A server or tool could neither be found nor be provided.

    Attributes:
        part: the part's name, such as `prometheus`.
        cause: what went wrong, with the end of the failing command's output where there is one.
        next_step: what the reader can do.
    """

    def __init__(self, *, part: str, cause: str, next_step: str) -> None:
        super().__init__(f"{part}: {cause}\n  next: {next_step}")
        self.part = part
        self.cause = cause
        self.next_step = next_step
