"""One tree of errors; every front end shows title, message and hint, and exits by the class.

    PtbError
    ├── UsageError (2)          what was asked cannot be understood; nothing was changed
    │   ├── ConfigError         a file a person wrote: file, place, what would be right
    │   ├── ContentError        an agent, task, judge or protocol folder is broken
    │   ├── NotFound            no such run, agent, task, site …
    │   ├── NotAllowed          the protocol, the sandbox rules or a read-only site refuse it
    │   └── TokenConflict       the same request token came with another content
    ├── StorageError (2)        a folder we must write cannot be written
    ├── StepError (1)           a step could not do its work; carries a cause of causes.toml
    ├── SiteUnreachable (3)     no answer from a site
    │   └── WireError           the far end spoke, but not our protocol
    ├── Timeout (4)             --timeout passed; runs go on
    ├── IntegrityError (5)      unjudged or quarantined results
    └── Detached (130)          interrupted; runs go on

Standard library alone: the supervisor raises these too.
"""

from __future__ import annotations


class PtbError(Exception):
    """Base of all errors. `message` names file, place and remedy; `hint` is the next thing to do."""

    title = "Error"
    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def kind(self) -> str:
        """The stable name used as `error.type` in JSON output and on the wire."""
        return type(self).__name__

    def to_wire(self) -> dict[str, str]:
        """Plain form for the wire and for `--json`."""
        wire = {"type": self.kind, "title": self.title, "message": self.message, "hint": self.hint}
        if isinstance(self, StepError):
            wire["cause"] = self.cause
        return wire


class UsageError(PtbError):
    """What was asked cannot be understood."""

    title = "Cannot do that"
    exit_code = 2


class ConfigError(UsageError):
    """A file that a person wrote is wrong."""

    title = "Mistake in a file"


class ContentError(UsageError):
    """A folder of content (agent, task, judge, protocol) is broken."""

    title = "Broken content"


class NotFound(UsageError):
    """The named thing does not exist."""

    title = "Not found"


class NotAllowed(UsageError):
    """Refused by the protocol, the sandbox rules or a read-only site."""

    title = "Refused"


class TokenConflict(UsageError):
    """A request token was used before with another content."""

    title = "Conflicting request"


class StorageError(PtbError):
    """A folder that must be written cannot be written."""

    title = "Cannot write"
    exit_code = 2


class StepError(PtbError):
    """A step failed for a cause of `core/causes.toml`."""

    title = "Step failed"

    def __init__(self, message: str, *, cause: str = "unknown", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.cause = cause


class SiteUnreachable(PtbError):
    """A site gives no answer; its runs go on."""

    title = "Site out of reach"
    exit_code = 3


class WireError(SiteUnreachable):
    """The far end spoke, but not our protocol."""

    title = "Site speaks another language"


class Timeout(PtbError):
    """The time given to wait has passed; runs go on."""

    title = "Time is up"
    exit_code = 4


class IntegrityError(PtbError):
    """Results that nobody may trust yet: unjudged or quarantined."""

    title = "Not to be trusted yet"
    exit_code = 5


class Detached(PtbError):
    """Interrupted by a person; runs go on."""

    title = "Detached"
    exit_code = 130


def _tree(cls: type[PtbError]) -> dict[str, type[PtbError]]:
    found = {cls.__name__: cls}
    for sub in cls.__subclasses__():
        found.update(_tree(sub))
    return found


def from_wire(wire: dict[str, str]) -> PtbError:
    """Rebuild an error that a far end sent; an unknown type becomes a plain PtbError."""
    cls = _tree(PtbError).get(wire.get("type", ""), PtbError)
    message, hint = str(wire.get("message", "unknown error")), str(wire.get("hint", ""))
    if issubclass(cls, StepError):
        return cls(message, cause=str(wire.get("cause", "unknown")), hint=hint)
    return cls(message, hint=hint)
