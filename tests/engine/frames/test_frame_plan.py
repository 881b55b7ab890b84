"""What can be wrong with frames and arguments is said before Spark runs anything, with what to write instead."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import ArrayType, IntegerType, MapType, StringType, StructType

from spdist.engine.frames.fitting import FrameRequest
from spdist.engine.frames.plan import FramePlan, frames_by_stream, plan_frames
from spdist.errors import ErrorKind, MappingError, PlanningError, SiddhiAppError, SpdistError, UndefinedNameError
from spdist.extension import catalog, function, signature
from spdist.language.checking.checked import CheckedApp
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.language.types import Type
from tests.error_codes import coded

TEXT = """
@app:name('Shop')
define stream Orders (item string, qty int, price double);
define stream Returns (item string, qty int);
partition with (item of Orders, item of Returns) begin
    from Orders#window.length(2) select item, sum(qty) as total insert into Totals;
    from every e1=Orders -> not Returns[qty > e1.qty] for 1 min select e1.item as item insert into Kept;
end;
"""
ONE = """
@app:name('One') define stream S (v int, f float, o object, id long);
from S#window.length(2) select sum(v) as total, f, o, id insert into Out;
"""
OBJECTS = ArrayType(MapType(StringType(), IntegerType()))
ORDERS = "ts timestamp, item string, qty int, price double"
RETURNS = "ts timestamp, item string, qty int"


def checked(text: str) -> CheckedApp:
    return check(parse(text), catalog(), text)


def columns(ddl: str) -> StructType:
    """Columns in Spark's words, without a Spark that reads them."""
    made = StructType()
    for column in ddl.split(", "):
        name, kind = column.split()
        made.add(name, OBJECTS if kind == "array" else kind.replace("tinyint", "byte").replace("int", "integer"))
    return made


def plan(text: str = TEXT, frames: dict[str, str] | None = None, **asked: Any) -> FramePlan:
    given = frames or {"Orders": ORDERS, "Returns": RETURNS}
    schemas = {name: columns(ddl) for name, ddl in given.items()}
    request = FrameRequest(**({"output": "Totals" if text == TEXT else "Out"} | asked))
    return plan_frames(checked(text), text, schemas, request, lambda: 3)


def test_the_partitions_of_the_app_say_how_rows_are_split() -> None:
    made = plan()
    assert [(one.stream, one.key) for one in made.inputs] == [("Orders", "item"), ("Returns", "item")]
    assert (made.shards, made.why_one) == (3, "")
    assert plan(shards=2, key="item").shards == 2


def test_the_result_has_the_attributes_and_says_when_and_which() -> None:
    assert plan().result().simpleString() == "struct<item:string,total:bigint,event_time:timestamp,event_id:string>"
    both = plan(output=["Totals", "Kept"], event_time="at", event_id="id").result()
    assert both.simpleString() == (
        "struct<stream:string,at:timestamp,id:string,Totals:struct<item:string,total:bigint>,Kept:struct<item:string>>"
    )
    one = plan(ONE, {"S": "ts long, v int, f float, o array, id int"}).result()
    assert one.simpleString() == (
        "struct<total:bigint,f:float,o:string,id:bigint,event_time:timestamp,event_id:string>"
    )


def test_an_app_that_cannot_be_split_is_one_shard_and_says_why() -> None:
    made = plan(ONE, {"S": "ts long, v int, f float, o string, id long"})
    assert (made.shards, made.why_one) == (1, "query 'query_1' is outside of partitions and has a window (length)")


def test_rows_that_are_looked_at_alone_are_split_in_any_way() -> None:
    made = plan("define stream S (v int); from S[v > 1] select v insert into Out;", {"S": "ts long, v int"})
    assert (made.shards, made.inputs[0].key) == (3, None)
    text = "define stream S (v int); from S[v > 1] select v insert into Out;"
    assert plan(text, {"S": "ts long, v int"}, key="v").inputs[0].key == "v"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"key": "qty"}, r"cannot be split by 'qty' of 'Orders': its partitions need 'item'"),
        ({"key": {"Returns": "qty"}}, r"by 'qty' of 'Returns'.*\n.*partition with \(qty of Returns\) begin … end"),
        ({"shards": 0}, "at least 1 shards, not 0"),
        ({"key": "price", "frames": {"Orders": ORDERS}}, "'price' of 'Orders'"),
        (
            {"text": ONE, "frames": {"S": "ts long, v int, f float, o string, id long"}, "shards": 2},
            r"'One' cannot be split into 2 shards: query 'query_1' is outside of partitions and has a window.*\n.*"
            "partition with",
        ),
        (
            {"text": ONE, "frames": {"S": "ts long, v int, f float, o string, id long"}, "key": "v"},
            r"'One' cannot be split by 'v' of 'S': query 'query_1' is outside .*\n.*partition with \(v of S\)",
        ),
    ],
)
def test_a_key_or_a_number_that_does_not_split_the_app_is_an_error_that_says_why(
    asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(PlanningError, match=said):
        plan(**asked)


@pytest.mark.parametrize(
    ("orders", "said"),
    [
        ("ts timestamp, item string, qty int", r"the frame of 'Orders' has no column 'price'\n.*it has: ts, item, qty"),
        (
            "ts timestamp, item string, qty int, Price double",
            r"no column 'price'\n.*withColumnRenamed\('Price', 'price'",
        ),
        (
            "ts string, item string, qty int, price double",
            r"'ts' of .* is string, which is no time\n.*to_timestamp\('ts'",
        ),
        ("ts double, item string, qty int, price double", r"'ts' of .* is double, which is no time"),
        (
            "ts timestamp, item string, qty long, price decimal(9,2)",
            r"'qty' of the frame of 'Orders' is bigint, the attribute is int; .*'price' .* is decimal\(9,2\), the "
            r"attribute is double\n.*F.col\('qty'\).cast\('int'\)\)\n.*F.col\('price'\).cast\('double'\)",
        ),
        ("ts timestamp, item int, qty int, price long", r"'item' .* is int, .* string; .* 'price' .* is bigint"),
        ("ts timestamp, item string, item int, qty int, price double", "has several columns 'item'"),
    ],
)
def test_columns_that_do_not_fit_are_named_with_both_types_and_what_to_write(orders: str, said: str) -> None:
    with pytest.raises(MappingError, match=said):
        plan(frames={"Orders": orders})


def test_columns_whose_values_all_fit_are_taken() -> None:
    plan(frames={"Orders": "ts date, item string, qty tinyint, price float, more binary"})
    plan(frames={"Orders": "ts timestamp_ntz, item varchar(9), qty short, price int"})
    with pytest.raises(MappingError, match=r"'o' .* is timestamp, the attribute is object"):
        plan(ONE, {"S": "ts long, v int, f float, o timestamp, id long"})
    with pytest.raises(MappingError, match=r"'f' .* is int, the attribute is float"):
        plan(ONE, {"S": "ts long, v int, f int, o string, id long"})


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"frames": {"Orders": "at timestamp, item string, qty int, price double"}}, "no column holds the times"),
        ({"time": {"Orders": "when"}}, "the frame of 'Orders' has no column 'when'"),
        ({"time_unit": "min"}, r"no time unit 'min'\n.*s, ms, us, ns"),
        ({"until": "soon"}, "'soon' is no time"),
        ({"order": "seq"}, "the frame of 'Orders' has no column 'seq'"),
        ({"output": None}, "'output' must be given: 2 streams are written by queries: 'Totals', 'Kept'"),
        ({"output": "Total"}, r"no stream that a query writes 'Total'\n.*Totals"),
        ({"output": []}, "'output' names no stream"),
        ({"event_id": "Item"}, r"the column 'item' twice\n.*event_id='Item_'"),
    ],
)
def test_arguments_that_do_not_fit_are_named(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(SpdistError, match=said):
        plan(**asked)


def test_which_column_says_when_a_row_was() -> None:
    frames = {"Orders": "event_time timestamp, time timestamp, item string, qty int, price double", "Returns": RETURNS}
    assert [one.time for one in plan(frames=frames).inputs] == ["time", "ts"]
    assert [one.time for one in plan(frames=frames, time={"Orders": "event_time"}).inputs] == ["event_time", "ts"]
    assert plan(until="1970-01-01T00:01:00Z").until == 60_000


def test_an_attribute_may_have_the_name_of_the_time() -> None:
    text = "define stream S (ts long, v int); from S select ts, v insert into Out;"
    assert plan(text, {"S": "ts long, v int"}).inputs[0].unit == "ms"


def test_a_table_in_a_database_is_refused() -> None:
    text = """define stream S (v int); @store(type='rdbms', jdbc.url='jdbc:sqlite:a.db') define table T (v int);
    from S insert into T; from S join T on S.v == T.v select S.v as v insert into Out;"""
    with pytest.raises(
        SiddhiAppError, match=r"(?s)'T' is kept in a database.*line 1", check=coded(ErrorKind.UNSUPPORTED)
    ):
        plan(text, {"S": "ts long, v int"})


def test_which_stream_a_frame_is() -> None:
    app = checked(TEXT)
    assert frames_by_stream(1, "Orders", app) == {"Orders": 1}
    assert frames_by_stream({"Orders": 1, "Returns": 2}, None, app) == {"Orders": 1, "Returns": 2}
    assert frames_by_stream(1, None, checked(ONE)) == {"S": 1}
    with pytest.raises(MappingError, match="'stream' must be given: 2 streams bring events from outside: 'Orders'"):
        frames_by_stream(1, None, app)
    with pytest.raises(MappingError, match="then without 'stream'"):
        frames_by_stream({"Orders": 1}, "Orders", app)
    with pytest.raises(UndefinedNameError, match="no stream 'Order'"):
        frames_by_stream(1, "Order", app)


def test_the_functions_of_the_user_that_an_app_calls_go_with_it() -> None:
    @function("frames:twice", signature("frames:twice", ((Type.INT,), Type.INT)))
    def twice(value: int) -> int:
        return 2 * value

    text = "define stream S (v int); from S select frames:twice(v) as v, math:abs(v) as w insert into Out;"
    assert [one.id for one in plan(text, {"S": "ts long, v int"}).extensions] == ["frames:twice"]
    assert plan().extensions == ()
