"""What of an app another version of it keeps, element by element."""

from __future__ import annotations

import pytest

from spdist.extension import catalog
from spdist.language.checking.checked import CheckedApp
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.planning.updates.fingerprints import app_elements, compare_elements, fingerprints

HEAD = "define stream S (k string, v int); define stream R (k string, v int);\n"
SUM = "@info(name='sum') from S#window.length(3) select sum(v) as n insert into Sums;"
TABLE = "@PrimaryKey('k') define table T (k string, v int);"


def checked(body: str) -> CheckedApp:
    text = body if "define stream S" in body else HEAD + body
    return check(parse(text), catalog(scripts=True), text)


def said(old: str, new: str) -> dict[str, tuple[str, str]]:
    """What becomes of each element, by its label: outcome and reason."""
    return {one.label: (one.outcome, one.reason) for one in compare_elements(checked(old), checked(new))}


KEEPS = ("keeps", "")
CHANGED = ("starts empty", "its text changed")


def test_layout_remarks_and_names_of_groups_change_nothing() -> None:
    moved = f"-- a remark\n@dist(execGroup='one')\n{SUM.replace(' select', '  SELECT')}"
    assert said(SUM, moved) == {"query 'sum'": KEEPS}


def test_a_query_in_front_shifts_nobody() -> None:
    first, second = "from S[v > 1] select v insert into A;", "from R#window.length(2) select v insert into B;"
    changes = said(first + second, "from S select k insert into C;" + first + second)
    assert [outcome for outcome, _ in changes.values()] == ["new", "keeps", "keeps"]


def test_of_equal_queries_the_first_belongs_to_the_first() -> None:
    one = "from S#window.length(2) select v insert into A;"
    outcomes = [c.outcome for c in compare_elements(checked(one + one), checked(one + SUM + one + one))]
    assert outcomes == ["keeps", "new", "keeps", "new"]
    assert len(fingerprints(checked(one + one + one))) == 3


def test_a_changed_query_is_known_by_its_name() -> None:
    assert said(SUM, SUM.replace("length(3)", "length(4)")) == {"query 'sum'": CHANGED}


def test_without_a_name_a_changed_query_is_another_one() -> None:
    unnamed = SUM.removeprefix("@info(name='sum') ")
    outcomes = {one.outcome for one in compare_elements(checked(unnamed), checked(unnamed.replace("3", "4")))}
    assert outcomes == {"new", "removed"}


def test_who_reads_a_stream_of_other_attributes_is_changed() -> None:
    chain = "@info(name='a') from S select {} insert into M; @info(name='b') from M select k insert into O;"
    changes = said(chain.format("k, v"), chain.format("k, v, v + 1 as w"))
    assert changes == {"query 'a'": CHANGED, "query 'b'": ("starts empty", "stream 'M' changed")}


def test_who_reads_what_another_query_writes_keeps_its_state() -> None:
    chain = "@info(name='a') from S[v > {}] select k, v insert into M; " + SUM.replace("from S", "from M")
    assert said(chain.format(0), chain.format(15)) == {"query 'a'": CHANGED, "query 'sum'": KEEPS}


def test_a_table_outlives_its_writers_and_readers() -> None:
    body = TABLE + "@info(name='w') from S[v > {}] insert into T; @info(name='r') from R[k == T.k in T] insert into O;"
    changes = said(body.format(0), body.format(1))
    assert changes == {"table 'T'": KEEPS, "query 'w'": CHANGED, "query 'r'": KEEPS}


def test_what_looks_into_a_changed_table_is_changed() -> None:
    body = TABLE + "@info(name='j') from R#window.length(2) join T on R.k == T.k select T.v as v insert into O;"
    without_key = said(body, body.replace("@PrimaryKey('k') ", ""))
    assert without_key == {"table 'T'": CHANGED, "query 'j'": ("starts empty", "table 'T' changed")}
    indexed = said(body, body.replace("@PrimaryKey", "@Index('v') @PrimaryKey"))
    assert indexed == {"table 'T'": KEEPS, "query 'j'": KEEPS}, "an index only makes it faster"


def test_a_partition_is_one_element() -> None:
    body = (
        "partition with (k of S) begin @info(name='p') from S select k, sum(v) as n insert into #I; "
        "from #I[n > {}] select n insert into O; end;"
    )
    assert said(body.format(1), body.format(1)) == {"partition with query 'p'": KEEPS}
    assert said(body.format(1), body.format(2)) == {"partition with query 'p'": CHANGED}
    other_key = HEAD.replace("k string, v int", "k int, v int", 1)
    reason = ("starts empty", "stream 'S' changed")
    assert said(HEAD + body.format(1), other_key + body.format(1)) == {"partition with query 'p'": reason}


def test_functions_of_the_app_count_with_their_bodies() -> None:
    body = "define function f[python] return int {{ return data[0] + {} }};" + SUM.replace("sum(v)", "sum(f(v))")
    assert said(body.format(1), body.format(2)) == {"query 'sum'": ("starts empty", "function 'f' changed")}
    unused = "define function g[python] return int { return 1 };"
    assert said(body.format(1), unused + body.format(1)) == {"query 'sum'": KEEPS}


def test_a_named_window_and_its_readers() -> None:
    body = "define window W (k string, v int) {} output all events; from S insert into W;"
    reader = "@info(name='r') from W select sum(v) as n insert into O;"
    changes = said(body.format("length(2)") + reader, body.format("length(3)") + reader)
    assert changes["window 'W'"] == CHANGED
    assert changes["query 'r'"] == ("starts empty", "window 'W' changed")


def test_a_window_that_somebody_begins_to_look_into_is_another_one() -> None:
    body = "define window W (k string, v int) lengthBatch(2); from S insert into W;"
    join = "@info(name='j') from R join W on R.k == W.k select W.v as v insert into O;"
    assert said(body, body + join)["window 'W'"] == ("starts empty", "whether a join looks into it changed")


def test_the_clock_gives_everything_its_meaning() -> None:
    body = HEAD + "define trigger X at every 1 sec; " + SUM
    changes = said(body, "@app:playback " + body)
    assert changes == dict.fromkeys(["trigger 'X'", "query 'sum'"], ("starts empty", "@app:playback changed"))
    assert said(body, "@app:name('Other') @app:statistics('true') " + body)["query 'sum'"] == KEEPS


def test_aggregations_and_triggers() -> None:
    body = (
        "define trigger X at every {} sec; "
        "define aggregation G from S select k, sum(v) as n group by k aggregate every sec ... {};"
    )
    changes = said(body.format(1, "min"), body.format(2, "hour"))
    assert changes == {"trigger 'X'": CHANGED, "aggregation 'G'": CHANGED}


def test_what_a_store_holds_is_there_in_any_case() -> None:
    body = "@Store(type='rdbms', datasource='{}') define table T (k string, v int); from S insert into T;"
    assert said(body.format("one"), body.format("one"))["table 'T'"] == ("keeps", "what its store holds is there")
    changed = said(body.format("one"), body.format("two"))["table 'T'"]
    assert changed == ("starts empty", "its store changed; what its store holds is there")


def test_sources_and_sinks_of_a_stream_are_not_the_business_of_its_readers() -> None:
    fed = HEAD.replace("define stream S", "@source(type='inMemory', topic='t', @map(type='json')) define stream S")
    sink = "@sink(type='log') define stream Sums (n long); "
    assert said(SUM, fed + sink + SUM) == {"query 'sum'": KEEPS}
    assert {e.kind for e in app_elements(checked(fed + sink + SUM))} == {"source", "sink", "query"}


def test_what_goes_is_said_last() -> None:
    changes = compare_elements(checked(TABLE + SUM), checked(SUM))
    assert [str(change) for change in changes] == ["query 'sum' keeps its state", "table 'T' goes, with its state"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [(SUM, {"query sum": "b14426f4d2ab3649"}), (TABLE, {"table T": "420aa538ebd2ae6c"})],
)
def test_fingerprints_are_the_same_in_every_release(body: str, expected: dict[str, str]) -> None:
    """Stored states are compared by them: one that changes needs another format of snapshots."""
    assert fingerprints(checked(body)) == expected
