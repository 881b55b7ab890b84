"""Further codes of classes of errors, as data: what each means, whether a call may be repeated, Siddhi's family."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

__all__ = ["ErrorCode", "ErrorKind", "PlanningRule"]


class ErrorCode(StrEnum):
    """A further code of a class of errors: what nobody catches by its class, and scripts tell apart."""

    meaning: str
    retryable: bool
    category: str

    def __new__(cls, code: str, meaning: str, retryable: bool = False, category: str = "") -> Self:
        """Make a code of what it means.

        Parameters
        ----------
        code : str
            Such as ``SP0706``.
        meaning : str
            What has happened, for people.
        retryable, category
            As `SpdistError.retryable` and `SiddhiAppError.category`; an empty category is that of the class.
        """
        # Enum takes the whole tuple of a member for its value, unless `_value_` is set here.
        known = str.__new__(cls, code)
        known._value_ = code
        known.meaning, known.retryable, known.category = meaning, retryable, category
        return known


class ErrorKind(ErrorCode):
    """The further codes of classes of errors but `PlanningError`."""

    UNSUPPORTED = "SP0105", "SiddhiQL that is understood but not run (yet)."
    UNDEFINED_ATTRIBUTE = (
        "SP0106",
        "Nothing that may be named here has an attribute of that name.",
        False,
        "unknown_attribute",
    )
    UNKNOWN_EXTENSION = (
        "SP0107",
        "No function, window, source, sink, mapping, strategy or script language of that name is known.",
        False,
        "unknown_extension",
    )
    UNDEFINED_SIDE = (
        "SP0110",
        "A side of a join is not known; Siddhi finds that while it reads the text.",
        False,
        "syntax",
    )
    DUPLICATE_ANNOTATION = "SP0111", "An annotation that may stand only once is written twice.", False, "other"
    UNANSWERED = (
        "SP0503",
        "A running group did not answer a question in time; whether what was asked took effect is unknown.",
        True,
    )
    QUERY_FAILED = "SP0401", "A running query ended with an error; names the app and the group."
    CLOCK_JUMP = "SP0402", "An event lies further ahead of the clock of its app than it may."
    FEEDBACK = "SP0403", "An event goes round in a circle of streams without an end."
    STATE_TOO_LARGE = "SP0602", "The live state needs more memory than it may have; what is stored is complete."
    NO_WORKERS = "SP0702", "There are not enough workers to place a group.", True
    CONFLICT = (
        "SP0706",
        "What was asked does not go together with what is there: an app of that name exists, a restart is under way.",
    )
    PLANNER_BUSY = "SP0709", "The manager is planning another app, and that takes long.", True
    BUSY = "SP0710", "As many requests of this kind are under way as this node takes.", True
    JOBS = (
        "SP0801",
        "Jobs cannot be run as asked: one is unknown or still runs, another scheduler does, or the history is damaged.",
    )
    SERVICE = "SP0900", "A server that spdist starts for people and tests did not start, or ended by itself."
    UNKNOWN_ERROR = "SP0799", "Another node reported an error that this version does not know."


class PlanningRule(ErrorCode):
    """What an app that is split into groups may not ask for. Each rule is a code of `PlanningError`."""

    PARALLEL_MISMATCH = "SP0301", "The members of a group ask for different ``parallel``."
    PARALLEL_TABLE = "SP0302", "A table in memory is used in a group of several instances."
    SHARED_TABLE = "SP0303", "A table in memory is used by several groups."
    PARALLEL_WINDOW = "SP0304", "A defined window is used in a group of several instances."
    SHARED_WINDOW = "SP0305", "A defined window is used by several groups."
    PARALLEL_JOIN = "SP0306", "A join outside a partition is to run in several instances."
    PARALLEL_PATTERN = "SP0307", "A pattern or sequence outside a partition is to run in several instances."
    PARALLEL_WINDOW_QUERY = "SP0308", "A query with a window outside a partition is to run in several instances."
    DIST_IN_PARTITION = "SP0309", "A query inside a partition has a ``@dist`` of its own."
    PARTITION_KEY = "SP0310", "A partition by ranges, or one in several instances that is not by a bare attribute."
    REPEATED_PARTITION = "SP0311", "Two partitions of a group split the same stream by the same key."
    CONFLICTING_STRATEGIES = "SP0312", "Two queries of a group need the same stream in ways that do not go together."
    INNER_GROUP_PARTITION = "SP0313", "A partition in several instances reads what its own group produces."
    PARALLEL_AGGREGATION = "SP0314", "An element of several instances joins an aggregation in memory."
    CHANNEL = (
        "SP0315",
        "A topic that the app needs does not fit, and may not be made: ``transportChannelCreationEnabled('false')``.",
    )
