"""What reading, checking, planning and showing an app costs grows with its size, and no faster."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import chain
from types import FrameType

import pytest

from spdist.engine.local.app import LocalApp
from spdist.errors import PlanningError, SiddhiAppError, SiddhiSyntaxError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.format import format_app
from spdist.language.parsing.parser import parse
from spdist.planning.execution import explanation
from spdist.planning.groups import plan
from spdist.planning.limits import UNLIMITED, AppLimits
from spdist.planning.pictures.graph import app_graph

HEAD = "@app:name('A')\ndefine stream S (v int, k int);\n"


def each(form: str, count: int) -> str:
    return "".join(form.replace("%", str(number)).replace("^", str(number + 1)) for number in range(count))


#: A form of app, made of `count` parts.
SHAPES: dict[str, Callable[[int], str]] = {
    "queries": lambda count: HEAD + each("from S select v insert into O%;\n", count),
    "queries of one stream": lambda count: HEAD + each("from S select v insert into O;\n", count),
    "chain": lambda count: f"{HEAD}from S select v insert into C0;" + each("from C% select v insert into C^;\n", count),
    "partition": lambda count: (
        f"{HEAD}partition with (k of S) begin\n" + each("from S select v insert into O%;\n", count) + "end;"
    ),
    "chain in a partition": lambda count: (
        f"{HEAD}partition with (k of S) begin from S select v, k insert into #C0;\n"
        + each("from #C% select v, k insert into #C^;\n", count)
        + f"from #C{count} select v, k insert into O; end; partition with (k of O) begin from O#window.length(2) "
        "select k insert into P; end;"
    ),
    "partitions": lambda count: (
        f"{HEAD}"
        + each(
            "@dist(execGroup='g%') partition with (k of S) begin "
            "from S#window.length(2) select v insert into O%; end;\n",
            count,
        )
    ),
    "keys": lambda count: (
        "@app:name('A')\n"
        + each("define stream S% (v int);\n", count)
        + f"partition with ({each('v of S%, ', count)[:-2]}) begin "
        + each("from S% select v insert into O%;\n", count)
        + "end;"
    ),
    "tables": lambda count: (
        HEAD
        + each("define table T% (v int);\n", count)
        + each("from S[v == k in T%] select v insert into T%;\n", count)
    ),
    "aggregations": lambda count: (
        HEAD
        + each("define aggregation A% from S select avg(v) as a aggregate every sec;\n", count)
        + "from S select v insert into O;"
    ),
    "groups": lambda count: HEAD + each("@dist(execGroup='g%') from S select v insert into O%;\n", count),
    "chain of groups": lambda count: (
        f"{HEAD}from S select v insert into C0;"
        + each("@dist(execGroup='g%') from C% select v insert into C^;\n", count)
    ),
    "sources": lambda count: (
        "@app:name('A')\n"
        + each("@source(type='inMemory', topic='t') define stream S% (v int);\n", count)
        + each("@dist(execGroup='g%', parallel='2') from S% select v insert into O%;\n", count)
    ),
    "sinks": lambda count: (
        HEAD
        + each("@sink(type='log') define stream O% (v int);\n", count)
        + each("from S select v insert into O%;\n", count)
    ),
    "attributes": lambda count: (
        f"@app:name('A') define stream S ({each('a% int, ', count)[:-2]});"
        f"from S select {each('a%, ', count)[:-2]} insert into O; from S select * insert into P;"
    ),
    "totals": lambda count: f"{HEAD}from S select {each('v + % as a%, ', count)} sum(v) as s insert into O;",
    "pattern": lambda count: (
        f"{HEAD}from e0=S{each('->e^=S[v > e%.v]', count)} select e0.v as a, e{count}.v as z insert into O;"
    ),
    "annotations": lambda count: each("@app:a%('x')\n", count) + HEAD + "from S select v insert into O;",
    "variables": lambda count: HEAD.replace("'A'", "'${a}'") + each("from S select v insert into ${o}%;\n", count),
    "missing variables": lambda count: HEAD + each("from S select v insert into ${missing}%;\n", count),
    "unknown attributes": lambda count: HEAD + each("from S select w% insert into O%;\n", count),
    "unknown streams": lambda count: (
        HEAD + each("define stream D% (v int);\n", count) + each("from R% insert into O;", count)
    ),
}


def steps(work: Callable[[], object]) -> int:
    """How many lines of Python are run, each pass of a loop counted: what the load of a machine does not change."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Callable[..., object]:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def everything(text: str) -> None:
    """Do with an app whatever is done before it runs."""
    try:
        app = parse(text, {"a": "A", "o": "O"})
        checked = check(app, catalog(), text)
        format_app(app)
        app_graph(checked).to_text()
        explanation(checked, catalog(), text).to_text()
        plan(app, checked, limits=UNLIMITED).assignments()
        LocalApp(checked)
    except SiddhiAppError as error:
        str(error)


@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_app_is_twice_the_work(shape: str) -> None:
    everything(SHAPES[shape](3))  # what is loaded and remembered
    # Of many errors the first hundred are found; only behind them nothing more is.
    size = 150 if shape.startswith("unknown") else 20
    small, large = (steps(lambda count=count: everything(SHAPES[shape](count))) for count in (size, 4 * size))
    assert large < 4.4 * small, f"{large / small:.1f} times the work for four times the app"


def test_every_shape_is_a_right_app_but_those_that_are_wrong_on_purpose() -> None:
    for shape, made in SHAPES.items():
        text = made(4)
        if shape.startswith(("missing", "unknown")):
            with pytest.raises(SiddhiAppError):
                check(parse(text, {"a": "A"}), catalog(), text)
        else:
            app = parse(text, {"a": "A", "o": "O"})
            plan(app, check(app, catalog(), text))


@pytest.mark.parametrize("shape", ["chain", "chain in a partition", "pattern"])
def test_what_is_long_needs_no_deep_recursion(shape: str) -> None:
    app = parse(SHAPES[shape](2000))
    checked = check(app, catalog())
    explanation(checked, catalog()).to_text()
    app_graph(checked).to_text()
    plan(app, checked)


def test_a_long_chain_can_be_drawn() -> None:
    app = parse(SHAPES["chain"](1100))
    assert app_graph(check(app, catalog())).to_svg().startswith("<svg")


def test_only_so_many_errors_are_reported() -> None:
    with pytest.raises(SiddhiAppError, match="at least 100 errors") as caught:
        check(parse(SHAPES["unknown attributes"](300)), catalog())
    assert len(caught.value.errors) == 100
    with pytest.raises(SiddhiSyntaxError) as missing:
        parse(SHAPES["missing variables"](300))
    assert len(missing.value.errors) == 100
    twice = each("partition with (k of S) begin from S select v insert into O%; end;\n", 300)
    app = parse(HEAD + twice)
    with pytest.raises(PlanningError, match="299 problems; these are the first 100") as planned:
        plan(app, check(app, catalog()))
    assert len(planned.value.errors) == 100


def test_a_call_with_thousands_of_wrong_arguments_costs_a_hundred_errors() -> None:
    wrong = ", ".join(f"w{number}" for number in range(3000))
    app = parse(f"{HEAD} from S select coalesce({wrong}) as x insert into O;")
    with pytest.raises(SiddhiAppError) as caught:
        check(app, catalog())
    assert len(caught.value.errors) == 100


def test_a_name_cannot_have_a_nul() -> None:
    everything(HEAD + "@info(name='a\x01') from S#window.length(2) select sum(v) as s insert into O;")
    for text in ("define stream `a\0b` (v int);", "define stream S (`a\0b` int);"):
        with pytest.raises(SiddhiSyntaxError, match="NUL") as caught:
            parse(text)
        assert caught.value.span is not None


def test_a_query_may_be_called_anything() -> None:
    app = parse(HEAD + "@info(name='a\ud800') from S#window.length(2) select sum(v) as s insert into O;")
    LocalApp(check(app, catalog())).send("S", 1, (1, 1))


def test_limits_count_what_is_in_partitions() -> None:
    text = f"{HEAD}partition with (k of S) begin {each('from S select v insert into O%;', 3)} end;"
    plan(parse(text), limits=AppLimits(elements=5))
    with pytest.raises(PlanningError, match="more than 4 definitions"):
        plan(parse(text), limits=AppLimits(elements=4))


def test_instances_differ_in_their_names_only() -> None:
    text = f"{HEAD}@dist(execGroup='g', parallel='3') from S select v insert into O;"
    texts = [one.text for group in plan(parse(text)).groups for one in group.instances]
    assert [one.splitlines()[0] for one in texts] == [f"@app:name('A-g-{number}')" for number in (1, 2, 3)]
    assert len({tuple(one.splitlines()[1:]) for one in texts}) == 1
    assert list(chain.from_iterable(one.splitlines() for one in texts[:1]))[1:]
