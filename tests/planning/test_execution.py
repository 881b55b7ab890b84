"""What `explain` says of apps: native or not and why, state, and real time where all of an app allows it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import spdist
from spdist.errors import AppValidationError, SiddhiSyntaxError
from spdist.extension import catalog
from spdist.planning.columns.realtime import RealtimePlan, realtime_plan

KAFKA = """
@source(type='kafka', bootstrap.servers='h:9092', topic.list='in', group.id='g', threading.option='single.thread',
        @map(type='json'))
define stream S (s string, v double);
@sink(type='kafka', bootstrap.servers='h:9092', topic='out', @map(type='json'))
define stream Out (s string, w double);
"""
NATIVE = "@info(name='q') from S[v > 1.0] select s, v * 2.0 as w insert into Out;"


def test_an_app_of_columns_between_kafka_topics_is_real_time() -> None:
    explained = spdist.explain(KAFKA + NATIVE)
    assert (explained.mode, explained.hosted) == ("real-time", "columns")
    assert str(explained).splitlines()[1:] == [
        "  split by the partitions of its Kafka topics",
        "  query q → Out",
        "      runs: native",
        "      state: none",
        "      key: none",
    ]


@pytest.mark.parametrize(
    ("query", "because", "state"),
    [
        ("from S select str:upper(s) as s, v as w insert into Out;", "str:upper() knows upper and lower", ()),
        ("from S select s, sum(v) as w group by s insert into Out;", "aggregates many", ("for each s",)),
        ("from S#window.length(5) select s, v as w insert into Out;", "keeps events", ("the last 5 events",)),
        ("from S#window.time(1 min) select s, v as w insert into Out;", "keeps events", ("of the last 1 min",)),
        ("from every e=S -> f=S within 1 min select e.s as s, f.v as w insert into Out;", "partial", ("1 min",)),
        ("from S select s, v as w output last every 5 events insert into Out;", "holds", ("last every 5 events",)),
        ("from S select s, v as w having w > 1.0 insert into Out;", "selector", ()),
        ("from S#log() select s, v as w insert into Out;", "no form", ()),
        ("partition with (s of S) begin from S select s, v as w insert into Out; end;", "instance", ()),
    ],
)
def test_what_the_engine_runs_and_why(query: str, because: str, state: tuple[str, ...]) -> None:
    explained = spdist.explain(KAFKA + query)
    first = explained.queries[0]
    assert explained.mode == "micro-batch"
    assert explained.hosted == "island"
    assert first.because is not None
    assert because in first.because
    assert len(first.state) == len(state)
    assert all(part in said for part, said in zip(state, first.state, strict=True))


@pytest.mark.parametrize("name", ["f", "sum", "coalesce"])
@pytest.mark.parametrize("language", ["python", "javascript"])
def test_a_function_of_the_app_is_its_own_whatever_its_name_means_elsewhere(language: str, name: str) -> None:
    app = f"{KAFKA} define function {name}[{language}] return double {{ return 1.0 }};"
    explained = spdist.explain(f"{app} from S select s, {name}(v, v) as w insert into Out;")
    assert explained.queries[0].because == f"{name}() is defined by the app"
    assert explained.queries[0].state == ()
    assert explained.hosted == "island"


def test_a_join_keeps_its_sides_and_a_partition_is_split_by_its_key() -> None:
    sides = "S#window.length(3) as a join S#window.time(1 sec) as b on a.s == b.s"
    join = f"from {sides} select a.s, b.v as w insert into Out;"
    assert len(spdist.explain(KAFKA + join).queries[0].state) == 2
    inside = "partition with (s of S) begin from S select s, sum(v) as w insert into Out; end;"
    explained = spdist.explain(KAFKA + inside).queries[0]
    assert explained.shard_key == "s"
    assert "for each key of the partition" in explained.state[0]
    assert spdist.explain(KAFKA + inside).split == "by s of S, where spark.shards asks for it"
    assert spdist.explain(KAFKA + join).split.startswith("not at all: ")


@pytest.mark.parametrize(
    ("old", "new", "because"),
    [
        ("type='kafka', bootstrap.servers='h:9092', topic='out'", "type='log'", "is not Kafka"),
        ("topic='out'", "topic='{{s}}'", "differs from event to event"),
        ("topic.list='in'", "topic.list='in', seq.enabled='true'", "'seq.enabled' is the engine's"),
        ("@map(type='json'))\ndefine stream Out", "@map(type='xml'))\ndefine stream Out", "is not json"),
        ("s string, v double", "event string, s string, v double", "only the mapper reads"),
        ("define stream S", "@OnError(action='STREAM') define stream S", "@OnError"),
        ("define stream S", "define table T (s string); define stream S", "table 'T'"),
        (NATIVE, f"from Out select s, w as v insert into S; {NATIVE}", "comes back to itself"),
        (NATIVE, f"define stream Free (s string, v double); from Free select * insert into S; {NATIVE}", "no @source"),
        (NATIVE, f"@dist(execGroup='a') {NATIVE}", "distributed"),
    ],
)
def test_what_keeps_an_app_from_real_time(old: str, new: str, because: str) -> None:
    app = KAFKA + NATIVE
    assert old in app
    explained = spdist.explain(app.replace(old, new))
    assert explained.mode == "micro-batch"
    assert because in explained.because


@pytest.mark.parametrize(
    ("behind", "option", "message"),
    [
        ("topic.list='in'", "partition.no.list='0, a'", "of the @source of stream 'S' has 'a'"),
        ("topic.list='in'", "partition.no.list='-1'", "of the @source of stream 'S' has '-1'"),
        ("topic.list='in'", f"partition.no.list='{'1' * 5000}'", "of the @source of stream 'S' has '1+'"),
        ("topic='out'", "partition.no='1,2'", "of the @sink of stream 'Out' has '1,2'"),
    ],
)
def test_what_is_no_partition_is_an_error_at_its_place(behind: str, option: str, message: str) -> None:
    with pytest.raises(AppValidationError, match=f"{message}, which is no partition") as caught:
        spdist.explain((KAFKA + NATIVE).replace(behind, f"{behind}, {option}"))
    assert caught.value.span is not None
    assert caught.value.text is not None
    assert caught.value.text[caught.value.span.start :].startswith(option)


def test_an_empty_option_names_no_partition() -> None:
    app = (KAFKA + NATIVE).replace("topic.list='in'", "topic.list='in', partition.no.list=''")
    checked = spdist.check(app.replace("topic='out'", "topic='out', partition.no=''"))
    plan = realtime_plan(checked, catalog())
    assert isinstance(plan, RealtimePlan)
    assert (plan.inputs[0].partitions, plan.outputs[0].partition) == (None, None)


def test_the_explanation_shows_itself_in_a_notebook_and_as_data() -> None:
    explained = spdist.explain(KAFKA + "from S select s, math:sin(v) as w insert into Out;")
    assert "math:sin() may differ" in explained._repr_html_()
    assert explained.to_dict()["queries"][0]["line"] == 7


def test_the_command_line() -> None:
    command = [sys.executable, "-m", "spdist", "explain", "-", "--json"]
    done = subprocess.run(command, input=KAFKA + NATIVE, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["mode"] == "real-time"


def test_an_app_that_is_wrong_is_refused() -> None:
    with pytest.raises(SiddhiSyntaxError):
        spdist.explain("from S select")
