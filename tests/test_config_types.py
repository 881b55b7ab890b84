"""The types of settings: what pydantic refuses is told in our words, and only who reads settings pays for pydantic."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.config.binding import keys
from spdist.config.kinds import Secret
from spdist.config.sections import SECTIONS
from spdist.config.source import ResolvedScalar, scalar
from spdist.config.types import Field, Memory, PlainPassword, Port, SecretText, Text, duration, value_of
from spdist.jobs.settings import Job

BASE = Path("/srv/node")
KINDS = [
    key.kind
    for section, fields in [*SECTIONS.values(), ("jobs", Job)]
    for _, key in keys(fields, f"{section}.")
    if key.kind is not None
]


def read(kind: Any, text: str, **options: Any) -> Any:
    return value_of(kind, ResolvedScalar(scalar(text), text, "file:1"), BASE, **options)


@given(st.sampled_from(KINDS), st.text() | st.integers().map(str) | st.booleans().map(str), st.booleans())
def test_whatever_is_written_is_a_value_or_refused_in_our_words(kind: Any, text: str, whole: bool) -> None:
    try:
        found = value_of(kind, ResolvedScalar(scalar(text), text, "file:1", whole), BASE)
    except ValueError as error:
        assert str(error)
        assert not {"Input", "input", "validation", "pydantic"} & set(str(error).split())
    else:
        assert isinstance(found, (str, int, Path, Secret, tuple))


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        (Port, "65536", "a whole number from 0 to 65535"),
        (Port, "80.0", "a whole number from 0 to 65535"),
        (Port, "true", "a whole number from 0 to 65535"),
        (Annotated[int, Field(ge=-1, le=3)], "-2", "a whole number from -1 to 3"),
        (bool, "1", "true or false"),
        (Literal["log", "kafka"], "nats", "log or kafka"),
        (Annotated[int, duration(50)], "49", "a time of at least 50 ms: whole milliseconds, or with a unit such as 50"),
        (Annotated[int, duration(50)], "true", "a time of at least 50 ms"),
        (Memory, "0g", "an amount of memory such as 512m or 2g"),
        (Text, " ", "text that is not empty"),
    ],
)
def test_ranges_and_choices_are_told_as_the_annotation_says(kind: Any, text: str, says: str) -> None:
    with pytest.raises(ValueError) as caught:
        read(kind, text)
    assert str(caught.value).startswith(says)


def test_text_is_what_is_written_whatever_it_is_for_yaml() -> None:
    assert read(Text, "007") == "007"
    assert read(Text, "1_000") == "1_000"
    assert read(Annotated[int, Field(ge=0, le=9999)], "1_000") == 1000


def test_an_error_holds_no_password() -> None:
    with pytest.raises(PlainPassword) as caught:
        read(SecretText, "geheim")
    assert caught.value.__context__ is None
    assert "geheim" not in str(caught.value)
    assert read(SecretText, "geheim", plain=True).reveal() == "geheim"


def test_whoever_reads_no_settings_does_without_pydantic() -> None:
    code = "import sys, spdist.config.standalone, spdist.config.allowed; assert 'pydantic' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
