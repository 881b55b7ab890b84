"""Errors by their codes: which class has them, and that they cross wires whole."""

from __future__ import annotations

import pickle

import pytest

from spdist import errors
from spdist.cluster.protocol.wire_errors import error_body, read_error
from spdist.errors import (
    ClusterError,
    DuplicateDefinitionError,
    EngineError,
    ErrorCode,
    ErrorKind,
    NotebookError,
    NotLeaderError,
    PlanningError,
    PlanningRule,
    SiddhiAppError,
    SpdistError,
    StateError,
    TransportError,
    UndefinedNameError,
    error_codes,
    error_of,
)


@pytest.mark.parametrize("code", sorted(error_codes()))
def test_an_error_is_made_of_its_code_and_crosses_wires_with_it(code: str) -> None:
    error = error_of(code, "it is so", hint="do that")
    assert (type(error), error.code, error.message, error.hint) == (error_codes()[code], code, "it is so", "do that")
    for again in (read_error(error_body(error), "asking"), pickle.loads(pickle.dumps(error))):
        assert (type(again), again.code, again.message) == (type(error), code, "it is so")


def test_the_rules_of_the_planner_are_codes_with_a_meaning() -> None:
    assert {rule.value: rule for rule in PlanningRule} == PlanningError.codes
    assert PlanningRule.SHARED_TABLE.meaning == "A table in memory is used by several groups."
    assert {error_codes()[rule] for rule in PlanningRule} == {PlanningError}
    assert PlanningError("m", code=PlanningRule.SHARED_TABLE).to_dict()["code"] == "SP0303"
    assert PlanningError("m").code == "SP0300"
    assert ClusterError("m", code=ErrorKind.PLANNER_BUSY).retryable


@pytest.mark.parametrize(
    ("code", "kind", "retryable", "category"),
    [
        (ErrorKind.UNSUPPORTED, SiddhiAppError, False, "creation"),
        (ErrorKind.UNDEFINED_ATTRIBUTE, UndefinedNameError, False, "unknown_attribute"),
        (ErrorKind.UNKNOWN_EXTENSION, UndefinedNameError, False, "unknown_extension"),
        (ErrorKind.UNDEFINED_SIDE, UndefinedNameError, False, "syntax"),
        (ErrorKind.DUPLICATE_ANNOTATION, DuplicateDefinitionError, False, "other"),
        (ErrorKind.UNANSWERED, TransportError, True, None),
        (ErrorKind.QUERY_FAILED, EngineError, False, None),
        (ErrorKind.CLOCK_JUMP, EngineError, False, None),
        (ErrorKind.FEEDBACK, EngineError, False, None),
        (ErrorKind.STATE_TOO_LARGE, StateError, False, None),
        (ErrorKind.JOBS, NotebookError, False, None),
        (ErrorKind.SERVICE, EngineError, False, None),
        (ErrorKind.NO_WORKERS, ClusterError, True, None),
        (ErrorKind.CONFLICT, ClusterError, False, None),
        (ErrorKind.PLANNER_BUSY, ClusterError, True, None),
        (ErrorKind.BUSY, ClusterError, True, None),
        (ErrorKind.UNKNOWN_ERROR, ClusterError, False, None),
        (PlanningRule.CHANNEL, PlanningError, False, "creation"),
    ],
)
def test_what_is_known_of_an_error_is_known_by_its_code(
    code: ErrorCode, kind: type[SpdistError], retryable: bool, category: str | None
) -> None:
    error = error_of(code, "m")
    assert (type(error), error.retryable, getattr(error, "category", None)) == (kind, retryable, category)
    assert error.kinds()[:2] == (code, kind)
    first = kind("m")
    assert (first.code, first.retryable) == (kind.code, kind.retryable)


def test_a_code_of_another_class_is_refused() -> None:
    with pytest.raises(ValueError, match="SP0701 is no code of PlanningError"):
        PlanningError("m", code=NotLeaderError.code)
    with pytest.raises(ValueError, match="SP0706 is no code of NotLeaderError"):
        NotLeaderError("m", code=ErrorKind.CONFLICT)
    with pytest.raises(KeyError):
        error_of("SP9999", "m")


def test_no_two_classes_have_one_code() -> None:
    with pytest.raises(TypeError, match="SP0303 of Another is taken by PlanningError"):
        type("Another", (errors.SpdistError,), {"code": "SP9998", "codes": {"SP0303": "m"}})


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("SharedTableError", PlanningError),
        ("UnsupportedFeatureError", SiddhiAppError),
        ("UndefinedAttributeError", UndefinedNameError),
        ("UnknownExtensionError", UndefinedNameError),
        ("UnansweredError", TransportError),
        ("ConflictError", ClusterError),
        ("PlannerBusyError", ClusterError),
        ("QueryFailedError", EngineError),
        ("StateTooLargeError", StateError),
        ("ScheduleError", NotebookError),
        ("ServiceError", EngineError),
    ],
)
def test_classes_that_are_codes_now_can_still_be_caught(name: str, kind: type[Exception]) -> None:
    with pytest.warns(DeprecationWarning, match=f"{name} is {kind.__name__} now"):
        assert getattr(errors, name) is kind
    with pytest.raises(AttributeError, match="no attribute 'NoSuchError'"):
        _ = errors.NoSuchError
