"""What is understood but not run is refused when the app is checked, with the place in its text, not by a worker."""

from __future__ import annotations

import pytest

from spdist.errors import ErrorKind, SiddhiAppError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from tests.error_codes import coded

STREAMS = "define stream S (v int, k string, at long);\ndefine stream T (v int, k string);\n"
AGGREGATED = "select k, sum(v) as s group by k aggregate every sec;"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("from every e1=S#log('x') -> e2=T select e1.v insert into Out;", "#log('x')"),
        ("from every e1=S, e2=T[v > 1]#pol2Cart(v, 1.0)+ select e1.v insert into Out;", "#pol2Cart(v, 1.0)"),
        ("from every e1=S and not T#log('x') select e1.v insert into Out;", "#log('x')"),
        (f"define aggregation A from S#unique:deduplicate(k, 1 sec) {AGGREGATED}", "#unique:deduplicate(k, 1 sec)"),
        (f"define aggregation A from S[v > 1]#reorder:kslack(at) {AGGREGATED}", "#reorder:kslack(at)"),
        ("from S[sum(v) > 5] select v insert into Out;", "sum(v) > 5"),
        ("from S select v return;", "return"),
    ],
)
def test_what_is_not_run_is_said_with_its_place(text: str, part: str) -> None:
    whole = STREAMS + text
    with pytest.raises(SiddhiAppError, check=coded(ErrorKind.UNSUPPORTED)) as caught:
        check(parse(whole), catalog(), whole)
    span = caught.value.span
    assert span is not None
    assert whole[span.start : span.end] == part
    assert span.line == 3
    assert caught.value.hint
