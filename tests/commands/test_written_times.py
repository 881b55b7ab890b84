"""A time is written in one way, wherever a command or a cell takes one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spdist.commands import events
from spdist.errors import MappingError, NotebookError
from spdist.frames import written_instant
from spdist.notebook.arguments import cell_arguments

#: 2013-01-01 00:00:01.250 UTC.
AT = 1_356_998_401_250


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        (f" {AT} ", AT),
        ("-5", -5),
        ("2013", 2013),  # a number, no year
        ("20130101", 20_130_101),
        ("2013-01-01T00:00:01.250", AT),
        ("2013-01-01T01:00:01.250+01:00 ", AT),
        ("2013-W01-2T000001,25", AT),
        ("2013-01", AT - 1_250),
        ("2013/1/1", AT - 1_250),
        ("soon", None),
        ("--5", None),
        ("9" * 19, None),
        ("9" * 5_000, None),
        ("\uff12\uff10\uff11\uff13", None),
        ("", None),
    ],
)
def test_whoever_writes_a_time_may_write_it_in_one_way(text: str, ms: int | None) -> None:
    def read(reader: Callable[[str], int]) -> int | None:
        try:
            return reader(text)
        except MappingError:
            return None

    def until(text: str) -> int:
        try:
            # As the shell does
            said = cell_arguments(f"--run S '--until={text}'").until
        except NotebookError as error:
            assert "is no time" in error.message
            raise MappingError(error.message) from None
        assert said is not None
        return said

    assert [read(reader) for reader in (written_instant, events._time, until)] == [ms] * 3
