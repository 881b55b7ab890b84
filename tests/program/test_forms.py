"""Many run one app, such as its shards: its program is written once."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from spdist.program import forms
from spdist.program.expressions import NotTyped
from spdist.program.forms import forms_of
from spdist.program.machine.compiler import interpreted
from spdist.program.text import written
from tests.program.drawn_apps import STREAM
from tests.program.watched import Watched, checked_app

WHOLE = f"{STREAM} from S[ok] select sym insert into Out;"
#: With a query that has no typed form.
MIXED = f"{WHOLE} from S select UUID() as id insert into Out2;"
UNTYPED = f"{STREAM} from S select UUID() as id insert into Out;"


@pytest.fixture
def written_shapes() -> Iterator[list[Any]]:
    """The shapes of which programs are written."""
    found: list[Any] = []

    def noted(shape: Any, put_out: tuple[str, ...]) -> Any:
        found.append(shape)
        return written(shape, put_out)

    with patch.object(forms, "written", noted):
        yield found


def program_of(checked: Any) -> Any:
    """Return the program of an app that is made anew; or why there is none."""
    own = Watched(checked, interpreted).app.programmed
    assert own is not None
    return own.program if own.compile() is not None else own.reason


@pytest.mark.parametrize(("text", "is_mixed"), [(WHOLE, False), (MIXED, True)])
def test_all_who_run_an_app_have_one_program(text: str, is_mixed: bool, written_shapes: list[Any]) -> None:
    checked = checked_app(text)
    programs = [program_of(checked) for _ in range(3)]
    assert programs[0] is programs[1] is programs[2]
    assert programs[0].shape.is_mixed is is_mixed
    assert len(written_shapes) == 1 + is_mixed  # first the whole app was tried
    assert program_of(checked_app(text)) is not programs[0]  # something else may be registered by then


def test_where_others_are_told_there_is_another_program() -> None:
    shape = (known := forms_of(checked_app(WHOLE))).whole
    assert [list(known.program(shape, put_out).outputs) for put_out in ((), ("Out",), ())] == [[], ["Out"], []]


def test_why_there_is_no_program_is_told_to_all_alike() -> None:
    checked = checked_app(UNTYPED)
    assert program_of(checked) == program_of(checked) != ""
    depths = []
    for _ in range(3):
        with pytest.raises(NotTyped) as told:
            forms_of(checked).mixed  # noqa: B018
        depths.append(len(traceback.extract_tb(told.value.__traceback__)))
    assert depths[1] == depths[2]  # an error that is raised again gathers more each time
