"""Every error of spdist: one root, stable codes, source spans, hints, and a rendering for people.

Each leaf also inherits the builtin exception a caller would reach for, so ``except ValueError`` works as expected.
The code of a class is part of the product: it is what scripts match on and what crosses the REST interface.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Self

from spdist.error_codes import ErrorCode, ErrorKind, PlanningRule
from spdist.spans import Paint, Span

__all__ = [
    "AppValidationError",
    "ClusterError",
    "ClusterUnreachableError",
    "ConfigError",
    "DeploymentTimeoutError",
    "DuplicateDefinitionError",
    "EngineError",
    "ErrorCode",
    "ErrorKind",
    "EventsLostWarning",
    "FencedError",
    "MappingError",
    "NotFoundError",
    "NotLeaderError",
    "NotebookError",
    "OnDemandQueryError",
    "PlanningError",
    "PlanningRule",
    "SiddhiAppError",
    "SiddhiSyntaxError",
    "SiddhiTypeError",
    "Span",
    "SpdistError",
    "StaleTermError",
    "StateError",
    "StoreUnavailableError",
    "TransportError",
    "TransportUnavailableError",
    "UnauthorizedError",
    "UndefinedNameError",
    "error_codes",
    "error_of",
]  # fmt: skip


_CODES: dict[str, type[SpdistError]] = {}


def error_codes() -> dict[str, type[SpdistError]]:
    """Return the table from stable code to error class (a copy); a class may have several codes."""
    return dict(_CODES)


def error_of(code: str, message: str, **known: Any) -> SpdistError:
    """Return the error with a code, as it was before it went over a wire; `known` is what its class takes, by name.

    Raises
    ------
    KeyError
        There is no such code.
    """
    kind = _CODES[code]
    return kind(message, **known) if code == kind.code else kind(message, code=code, **known)


def _by_code(*codes: ErrorCode) -> dict[str, ErrorCode]:
    return {one.value: one for one in codes}


class SpdistError(Exception):
    """Something went wrong that spdist can explain.

    Parameters
    ----------
    message : str
        What happened, for people.
    span : Span, optional
        Where in the app's text.
    hint : str, optional
        What to do about it.
    text : str, optional
        The app's text, so that the error can show the line with a caret.
    code : str, optional
        One of `codes`, where it is not the class's first code.
    """

    code: str = "SP0000"
    #: Further codes of the class.
    codes: ClassVar[Mapping[str, ErrorCode]] = {}
    #: True where the same call may succeed later without anyone changing anything.
    retryable: bool = False
    #: From a line of an app and from its carets to ANSI colours, and from the line to HTML: set by `spdist.language`.
    paints: ClassVar[tuple[Paint, Paint, Paint]] = (str, str, escape)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Not `cls.codes`: those that a class inherits belong to its parent.
        own = (cls.code, *cls.__dict__.get("codes", ()))
        for code in own:
            if code in _CODES:
                raise TypeError(f"error code {code} of {cls.__name__} is taken by {_CODES[code].__name__}")
        _CODES.update(dict.fromkeys(own, cls))

    def __init__(
        self,
        message: str,
        *,
        span: Span | None = None,
        hint: str | None = None,
        text: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        if code is not None and code != type(self).code:
            if _CODES.get(code) is not type(self):
                raise ValueError(f"{code} is no code of {type(self).__name__}")
            self.code, self.retryable = self.codes[code].value, self.codes[code].retryable
        self.message = message
        self.span = span
        self.hint = hint
        self.text = text

    def kinds(self) -> tuple[str | type[Any], ...]:
        """Return what tables by kinds of errors are asked for: the code, then the class and its ancestors."""
        return self.code, *type(self).__mro__

    def __str__(self) -> str:
        return self.shown()

    def shown(self, words: Paint = str, line: Paint = str, carets: Paint = str) -> str:
        """Return the message, the line of the app with carets below, and the hint, each as these functions write it."""
        parts = [self._headline(words, line, carets)]
        if span := self.span:
            parts[0] += words(f" (line {span.line}, column {span.column})")
            parts += [] if self.text is None else [span.excerpt(self.text, line, carets)]
        return "\n".join([*parts, words(f"Hint: {self.hint}")] if self.hint else parts)

    def _headline(self, words: Paint, *_: Paint) -> str:
        return words(self.message)

    def to_dict(self) -> dict[str, Any]:
        """Return the form that crosses the wire: ``code, type, message`` and, where known, ``line, column, hint``."""
        out: dict[str, Any] = {"code": self.code, "type": type(self).__name__, "message": self.message}
        if self.span is not None:
            out |= {"line": self.span.line, "column": self.span.column}
        if self.hint:
            out["hint"] = self.hint
        return out

    def _render_traceback_(self) -> list[str]:
        """Jupyter calls this: people see the sentence, not our stack; the line of the app in colours of the theme."""
        return [f"{type(self).__name__} [{self.code}]: {self.shown(str, *self.paints[:2])}"]


_CODES[SpdistError.code] = SpdistError


class SiddhiAppError(SpdistError, ValueError):
    """The text of an app is wrong; raised before anything runs. ``errors`` holds all that was found.

    ``category`` says which family of Siddhi's exceptions the error belongs to; replays compare it.
    """

    code = "SP0100"
    codes = _by_code(ErrorKind.UNSUPPORTED)
    category: str = "creation"

    def __init__(self, message: str, *, errors: tuple[SiddhiAppError, ...] = (), **kwargs: Any) -> None:
        super().__init__(message, **kwargs)
        if (known := self.codes.get(self.code)) is not None and known.category:
            self.category = known.category
        self.errors: tuple[SiddhiAppError, ...] = errors or (self,)
        # The message holds the list, too: it is what goes over the wire.
        self.message = self._headline(str)

    @classmethod
    def of_all(cls, headline: str, errors: Sequence[SiddhiAppError]) -> Self:
        """Return the error that stands for all of `errors`, and lists them below its headline."""
        return cls(headline, errors=tuple(errors))

    def show_in(self, text: str) -> Self:
        """Have this error, and all that it stands for, show their lines of the app's text; return it."""
        self.text = text
        for one in self.errors:
            one.text = text
        self.message = self._headline(str)
        return self

    def _headline(self, words: Paint, *others: Paint) -> str:
        if self in self.errors:
            return words(self.message)
        lines = (f"{number}. {one.shown(words, *others)}" for number, one in enumerate(self.errors, 1))
        # Only its first line: the message may have the list already, from before the errors had their text.
        return "\n".join([words(self.message.partition("\n")[0]), *lines])


class SiddhiSyntaxError(SiddhiAppError):
    """The text does not follow the grammar of SiddhiQL."""

    code = "SP0101"
    category = "syntax"


class UndefinedNameError(SiddhiAppError):
    """A stream, table, attribute, function or window of that name is not known here."""

    code = "SP0102"
    codes = _by_code(ErrorKind.UNDEFINED_ATTRIBUTE, ErrorKind.UNKNOWN_EXTENSION, ErrorKind.UNDEFINED_SIDE)


class DuplicateDefinitionError(SiddhiAppError):
    """A name is defined twice, or a second time with another schema."""

    code = "SP0103"
    codes = _by_code(ErrorKind.DUPLICATE_ANNOTATION)
    category = "duplicate"


class SiddhiTypeError(SiddhiAppError, TypeError):
    """An expression or an argument has a type that does not fit."""

    code = "SP0104"


class AppValidationError(SiddhiAppError):
    """The app breaks a rule: an ambiguous name, two queries of one name, an annotation that does not fit."""

    code = "SP0108"
    category = "validation"


class OnDemandQueryError(SiddhiAppError):
    """An on-demand query that cannot be run; ``errors`` holds all that was found."""

    code = "SP0109"
    category = "on_demand_creation"


class ConfigError(SpdistError, ValueError):
    """``deployment.yaml`` or ``jobs.yaml`` is wrong: names the file, the key path, the value, and the nearest key."""

    code = "SP0200"


class PlanningError(SiddhiAppError):
    """A distributed app that cannot be split as its annotations ask; names the query and the group."""

    code = "SP0300"
    codes = _by_code(*PlanningRule)


class EngineError(SpdistError, RuntimeError):
    """Spark, the machine it runs on, or a running app cannot do what was asked (for example: no Java)."""

    code = "SP0400"
    codes = _by_code(ErrorKind.QUERY_FAILED, ErrorKind.CLOCK_JUMP, ErrorKind.FEEDBACK, ErrorKind.SERVICE)


class TransportError(SpdistError, OSError):
    """A topic cannot be read or written."""

    code = "SP0500"
    codes = _by_code(ErrorKind.UNANSWERED)


class TransportUnavailableError(TransportError, ConnectionError):
    """The server that keeps the topics does not answer; whether an append took effect is unknown."""

    code = "SP0502"
    retryable = True


class MappingError(TransportError):
    """A payload, or an event of it, does not fit the stream it was sent to."""

    code = "SP0501"
    #: For how many events it stands.
    events = 1


class StateError(SpdistError, RuntimeError):
    """Stored state is missing, damaged or made by another version."""

    code = "SP0600"
    codes = _by_code(ErrorKind.STATE_TOO_LARGE)


class FencedError(StateError):
    """Another owner has taken over this shard; the one who sees this error must stop."""

    code = "SP0601"


class StoreError(SpdistError, ConnectionError):
    """A database that holds tables or aggregations cannot be reached, or refuses what it was asked."""

    code = "SP0603"


class ClusterError(SpdistError, RuntimeError):
    """The cluster cannot do what was asked."""

    code = "SP0700"
    codes = _by_code(
        ErrorKind.NO_WORKERS, ErrorKind.CONFLICT, ErrorKind.PLANNER_BUSY, ErrorKind.BUSY, ErrorKind.UNKNOWN_ERROR
    )


class NotLeaderError(ClusterError):
    """The manager that was asked does not lead. ``leader`` is the base URL of the one that does, if known."""

    code = "SP0701"
    retryable = True

    def __init__(self, message: str, *, leader: str | None = None, **kwargs: Any) -> None:
        super().__init__(message, **kwargs)
        self.leader = leader


class StaleTermError(ClusterError):
    """A command or a write carries the term of a leadership that has ended."""

    code = "SP0703"


class NotFoundError(ClusterError, LookupError):
    """The cluster knows no app, revision or node of that name."""

    code = "SP0704"


class UnauthorizedError(ClusterError, PermissionError):
    """User name or password are wrong, or the user may not do this."""

    code = "SP0705"


class DeploymentTimeoutError(ClusterError, TimeoutError):
    """A deployment did not become what was waited for; the message says what each of its groups was doing."""

    code = "SP0707"
    retryable = True


class StoreUnavailableError(ClusterError, ConnectionError):
    """The coordination database cannot be reached; whether a write took effect is unknown."""

    code = "SP0708"
    retryable = True


class ClusterUnreachableError(ClusterError, ConnectionError):
    """No manager answered; what was asked has not reached one that leads."""

    code = "SP0720"
    retryable = True


class NotebookError(SpdistError, RuntimeError):
    """A notebook, or a magic command in one, was given a wrong parameter; or one had to be stopped by force."""

    code = "SP0800"
    codes = _by_code(ErrorKind.JOBS)


class EventsLostWarning(UserWarning):
    """Events of a run were lost because a query failed on them, or refused; `spdist.Result.lost` counts them."""


_WERE_CLASSES = (
    "ParallelMismatchError", "ParallelTableError", "SharedTableError", "ParallelWindowError", "SharedWindowError",
    "ParallelJoinError", "ParallelPatternError", "ParallelWindowQueryError", "DistInPartitionError",
    "PartitionKeyError", "RepeatedPartitionError", "ConflictingStrategiesError", "InnerGroupPartitionError",
    "ParallelAggregationError", "ChannelError",
)  # fmt: skip
#: Names of classes that are codes of another class now: who catches one catches that class.
_FORMER: Mapping[str, type[SpdistError]] = {
    "UnsupportedFeatureError": SiddhiAppError,
    **dict.fromkeys(("UndefinedAttributeError", "UnknownExtensionError", "UndefinedSideError"), UndefinedNameError),
    "DuplicateAnnotationError": DuplicateDefinitionError,
    "UnansweredError": TransportError,
    **dict.fromkeys(("QueryFailedError", "ClockJumpError", "FeedbackError", "ServiceError"), EngineError),
    "ScheduleError": NotebookError,
    "StateTooLargeError": StateError,
    **dict.fromkeys(_WERE_CLASSES, PlanningError),
    **dict.fromkeys(("BusyError", "ConflictError", "NoWorkersError", "PlannerBusyError", "RemoteError"), ClusterError),
}

# Type checkers are not to believe that the module has every name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> type[SpdistError]:
        if name not in _FORMER:
            raise AttributeError(f"module 'spdist.errors' has no attribute '{name}'")
        kind = _FORMER[name]
        warnings.warn(f"{name} is {kind.__name__} now; its `code` says which one", DeprecationWarning, stacklevel=2)
        return kind
