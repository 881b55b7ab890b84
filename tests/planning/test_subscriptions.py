"""How instances share a stream, and what may not run in parallel: each refusal names query and group, and its place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spdist.errors import ErrorKind, PlanningError, PlanningRule, SiddhiAppError
from spdist.planning.topology import Strategy, Topology
from tests.error_codes import coded

Planned = Callable[[str], Topology]
#: Fills Mid from another group, so that it is a stream between groups.
MID = "@dist(execGroup='mid') from S select k, v insert into Mid;\n"
#: A query of the default group that keeps the app's other group from being alone.
PARTITION = "partition with (k of Mid) begin from Mid#window.length(2) select k, sum(v) as n insert into Sums; end;\n"


def strategies(topology: Topology, group: str) -> dict[str, tuple[Strategy, str | None]]:
    found = next(g for g in topology.groups if g.name == group)
    return {i.stream: (i.strategy, i.key) for i in found.inputs}


def test_one_instance_reads_everything_even_for_a_partition(planned: Planned) -> None:
    topology = planned(MID + "@dist(execGroup='g') " + PARTITION)
    assert strategies(topology, "App-g") == {"Mid": (Strategy.ALL, "k")}


def test_instances_of_a_plain_query_take_turns(planned: Planned) -> None:
    topology = planned("@dist(execGroup='g', parallel='3') from S[v > 1] select k insert into A;")
    assert strategies(topology, "App-g") == {"S": (Strategy.ROUND_ROBIN, None)}


def test_instances_of_a_partition_share_by_its_key(planned: Planned) -> None:
    topology = planned(MID + "@dist(execGroup='g', parallel='2') " + PARTITION)
    assert strategies(topology, "App-g") == {"Mid": (Strategy.FIELD_GROUPING, "k")}


def test_a_stream_that_a_partition_does_not_split_reaches_every_instance(planned: Planned) -> None:
    topology = planned(
        MID
        + """@dist(execGroup='g', parallel='2') partition with (k of Mid) begin
               from every e1=Mid -> e2=R[v > e1.v] select e1.k as k insert into Out;
             end;"""
    )
    assert strategies(topology, "App-g") == {"Mid": (Strategy.FIELD_GROUPING, "k"), "R": (Strategy.ALL, None)}


@pytest.mark.parametrize("first", ["plain", "partition"])
def test_a_plain_query_beside_a_partition_of_its_stream_shares_by_key(planned: Planned, first: str) -> None:
    plain = "@dist(execGroup='g', parallel='2') from Mid select k insert into Copies;\n"
    partition = "@dist(execGroup='g', parallel='2') " + PARTITION
    topology = planned(MID + (plain + partition if first == "plain" else partition + plain))
    assert strategies(topology, "App-g") == {"Mid": (Strategy.FIELD_GROUPING, "k")}


REFUSED = {
    "members disagree": (
        """@dist(execGroup='g', parallel='2') from S select k insert into A;
           @info(name='other') @dist(execGroup='g') from R select k insert into B;""",
        r"query 'other' asks for parallel '1', but query 'query_1' of the same group 'App-g' for '2'",
        5,
    ),
    "table in parallel": (
        """define table T (k string);
           @info(name='fill') @dist(execGroup='g', parallel='2') from S select k insert into T;""",
        r"query 'fill' of group 'App-g' uses the in-memory table 'T' with parallel '2'",
        5,
    ),
    "table in two groups": (
        """define table T (k string);
           @dist(execGroup='g') from S select k insert into T;
           @dist(execGroup='h') from S[S.k == T.k in T] select k insert into A;""",
        r"in-memory table 'T' is used by the groups 'App-g' and 'App-h'",
        6,
    ),
    "window in parallel": (
        """define window W (k string, v int) length(5);
           @info(name='fill') @dist(execGroup='g', parallel='2') from S select k, v insert into W;""",
        r"query 'fill' of group 'App-g' uses the window 'W' with parallel '2'",
        5,
    ),
    "window in two groups": (
        """define window W (k string, v int) length(5);
           @dist(execGroup='g') from S select k, v insert into W;
           @dist(execGroup='h') from W select k insert into A;""",
        r"window 'W' is used by the groups 'App-g' and 'App-h'",
        6,
    ),
    "join in parallel": (
        """@info(name='j') @dist(execGroup='g', parallel='2')
           from S#window.length(1) join R#window.length(1) on S.k == R.k select S.k as k insert into A;""",
        r"query 'j' of group 'App-g' has parallel '2' but is a join",
        4,
    ),
    "pattern in parallel": (
        """@info(name='p') @dist(execGroup='g', parallel='2')
           from every e1=S -> e2=R select e1.k as k insert into A;""",
        r"query 'p' of group 'App-g' has parallel '2' but is a pattern",
        4,
    ),
    "sequence in parallel": (
        """@info(name='q') @dist(execGroup='g', parallel='2')
           from every e1=S, e2=S select e1.k as k insert into A;""",
        r"query 'q' of group 'App-g' has parallel '2' but is a sequence",
        4,
    ),
    "window query in parallel": (
        """@info(name='w') @dist(execGroup='g', parallel='2')
           from S#window.length(5) select sum(v) as n insert into A;""",
        r"query 'w' of group 'App-g' has parallel '2' but is a window \(length\)",
        4,
    ),
    "dist inside a partition": (
        """@dist(execGroup='g') partition with (k of S) begin
             @info(name='inner') @dist(execGroup='h') from S select k insert into A;
           end;""",
        r"query 'inner' stands inside a partition and cannot have a @dist of its own",
        5,
    ),
    "range partition": (
        """@dist(execGroup='g') partition with (v < 5 as 'low' or v >= 5 as 'high' of S) begin
             from S select k insert into A;
           end;""",
        r"partition 1 \(with query 'query_1'\) of group 'g' splits 'S' by ranges",
        4,
    ),
    "same key twice in a group": (
        """@dist(execGroup='g') partition with (k of S) begin from S select k insert into A; end;
           @dist(execGroup='g') partition with (k of S) begin from S select k insert into B; end;""",
        r"partition 2 \(with query 'query_2'\) splits 'S' by 'k', as another partition of group 'App-g' does",
        5,
    ),
    "two keys in a group": (
        """@dist(execGroup='g', parallel='2') partition with (k of S) begin from S select k insert into A; end;
           @dist(execGroup='g', parallel='2') partition with (v of S) begin from S select k insert into B; end;""",
        r"splits 'S' by 'v', but another partition of group 'App-g' splits it by 'k'",
        5,
    ),
    "conflicting strategies": (
        """@info(name='plain') @dist(execGroup='g', parallel='2') from S select k insert into A;
           @dist(execGroup='g', parallel='2') partition with (k of R) begin
             @info(name='inner') from every e1=R -> e2=S select e1.k as k insert into B;
           end;""",
        r"conflicting strategies for stream 'S' in group 'App-g': query 'plain' reads it ROUND_ROBIN",
        6,
    ),
    "key is an expression": (
        """@dist(execGroup='g', parallel='2') partition with (v % 2 of S) begin from S select k insert into A; end;""",
        r"splits 'S' by an expression; with parallel '2' it must be a bare attribute",
        4,
    ),
    "parallel is no number": (
        "@dist(execGroup='g', parallel='many') from S select k insert into A;",
        r"query 'query_1': parallel 'many' is not a whole number",
        4,
    ),
    "parallel is zero": (
        "@dist(execGroup='g', parallel='0') from S select k insert into A;",
        r"parallel '0' is not a whole number from 1",
        4,
    ),
    "element that dist does not know": (
        "@dist(group='g') from S select k insert into A;",
        r"query 'query_1': @dist has no 'group'",
        4,
    ),
    "dist twice": (
        "@dist(execGroup='g') @dist(execGroup='h') from S select k insert into A;",
        r"query 'query_1' has 2 @dist annotations",
        4,
    ),
    "group that names no file": (
        "@dist(execGroup='../up') from S select k insert into A;",
        r"execGroup '../up' cannot name files and topics",
        4,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(planned: Planned, case: str) -> None:
    body, message, line = REFUSED[case]
    with pytest.raises(PlanningError, match=message) as caught:
        planned(body)
    assert caught.value.span is not None
    assert caught.value.span.line == line
    assert caught.value.hint


def test_everything_that_is_wrong_is_said_at_once(planned: Planned) -> None:
    with pytest.raises(SiddhiAppError, match="2 problems") as caught:
        planned("""
            @info(name='w') @dist(execGroup='g', parallel='2') from S#window.length(5) select k insert into A;
            @info(name='p') @dist(execGroup='h', parallel='2') from every e1=S -> e2=R select e1.k as k insert into B;
        """)
    assert [e.code for e in caught.value.errors] == [PlanningRule.PARALLEL_WINDOW_QUERY, PlanningRule.PARALLEL_PATTERN]


def test_expressions_as_keys_ranges_aside_are_fine_for_one_instance(planned: Planned) -> None:
    topology = planned("@dist(execGroup='g') partition with (v % 2 of S) begin from S select k insert into A; end;")
    assert strategies(topology, "App-g") == {"S": (Strategy.ALL, None)}


def test_a_table_with_a_store_may_be_used_anywhere(planned: Planned) -> None:
    topology = planned("""
        @store(type='rdbms') define table T (k string);
        @dist(execGroup='g', parallel='2') from S select k insert into T;
        @dist(execGroup='h') from R select k insert into T;
    """)
    assert all("define table T" in i.text for g in topology.groups for i in g.instances)


def test_a_table_of_one_group_goes_with_it(planned: Planned) -> None:
    topology = planned("""
        define table T (k string);
        @dist(execGroup='g') from S select k insert into T;
        @dist(execGroup='h') from R select k insert into A;
    """)
    assert ["define table T" in g.instances[0].text for g in topology.groups] == [True, False]


NOT_BUILT = {
    "fault stream": (
        """@OnError(action='STREAM') define stream In (k string);
           @dist(execGroup='g') from In select k insert into A;
           @info(name='f') @dist(execGroup='h') from !In select k insert into B;""",
        "query 'f' uses the fault stream '!In'",
        6,
    ),
}


@pytest.mark.parametrize("case", NOT_BUILT)
def test_what_is_not_built_yet_is_refused_where_it_stands(planned: Planned, case: str) -> None:
    body, message, line = NOT_BUILT[case]
    with pytest.raises(SiddhiAppError, match=message, check=coded(ErrorKind.UNSUPPORTED)) as caught:
        planned(body)
    assert caught.value.span is not None
    assert caught.value.span.line == line
