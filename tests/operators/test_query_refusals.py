"""What the local engine does not run is refused when the app is made, with the place in the text."""

from __future__ import annotations

import pytest

from spdist.engine.local.app import LocalApp
from spdist.errors import ErrorKind, SiddhiAppError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from tests.error_codes import coded

STREAMS = "define stream S (v int, k string);\ndefine stream T (v int, k string);\n"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("from every e1=S#log('x') -> e2=T select e1.v insert into Out;", "log"),
        ("from S select v return;", "return"),
    ],
)
def test_what_is_not_run_is_said_with_its_place(text: str, part: str) -> None:
    whole = STREAMS + text
    with pytest.raises(SiddhiAppError, check=coded(ErrorKind.UNSUPPORTED)) as caught:
        LocalApp(check(parse(whole), catalog(), whole))
    span = caught.value.span
    assert span is not None
    assert part in whole[span.start : span.end]
    assert span.line == 3
