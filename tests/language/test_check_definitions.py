from __future__ import annotations

import pytest

from spdist.errors import (
    AppValidationError,
    DuplicateDefinitionError,
    ErrorKind,
    SiddhiAppError,
    SiddhiSyntaxError,
    SiddhiTypeError,
    UndefinedNameError,
)
from spdist.language.catalog import Catalog
from spdist.language.checking.checker import CheckedApp, check
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema


def app(text: str, catalog: Catalog) -> CheckedApp:
    return check(parse(text), catalog)


def error(text: str, catalog: Catalog) -> SiddhiAppError:
    with pytest.raises(SiddhiAppError) as caught:
        app(text, catalog)
    (found,) = caught.value.errors
    assert found.span is not None
    return found


def test_definitions_are_known_by_kind(catalog: Catalog) -> None:
    found = app(
        """@OnError(action='stream') define stream S (a string, b int);
        define table T (a string); define window W (a string) time(1 min) output all events;
        define trigger Tick at every 5 sec; define trigger Noon at '0 0 12 * * ?';
        define aggregation G from S[b > 1] select a, sum(b) as total group by a aggregate every sec ... hour;""",
        catalog,
    )
    triggered = Schema.of([("triggered_time", "long")])
    assert found.streams == {
        "S": Schema.of([("a", "string"), ("b", "int")]),
        "!S": Schema.of([("a", "string"), ("b", "int"), ("_error", "object")]),
        "Tick": triggered,
        "Noon": triggered,
    }
    assert found.tables == {"T": Schema.of([("a", "string")])}
    assert found.windows == {"W": Schema.of([("a", "string")])}
    assert found.aggregations == {"G": Schema.of([("AGG_TIMESTAMP", "long"), ("a", "string"), ("total", "long")])}


def test_the_same_definition_twice_is_one(catalog: Catalog) -> None:
    assert len(app("define stream S (a int); define stream S (a int);", catalog).streams) == 1


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("define stream S (a int); define stream S (a long);", DuplicateDefinitionError, "'S' is defined twice"),
        ("define stream S (a int); define table S (a int);", DuplicateDefinitionError, "'S' is defined twice"),
        (
            "define stream S (a int); define trigger S at 'start';",
            DuplicateDefinitionError,
            "'S' is defined twice",
        ),
        ("define window W (a int) weekly(1);", ErrorKind.UNKNOWN_EXTENSION, "no window 'weekly'"),
        ("define window W (a int) length('2');", SiddhiTypeError, "constant int"),
        ("define window W (a int) sort(2, b);", ErrorKind.UNDEFINED_ATTRIBUTE, "no attribute 'b'"),
        ("define trigger T at every 0 sec;", SiddhiTypeError, "every 0 ms"),
        (
            "define stream S (a int); @async define stream S (a int);",
            DuplicateDefinitionError,
            "'S' is defined twice",
        ),
        (
            "define trigger T at 'start'; define trigger T at 'start';",
            DuplicateDefinitionError,
            "'T' is defined twice",
        ),
        ("@info(name='x') define trigger T at 'start';", SiddhiSyntaxError, "takes no annotations"),
        ("define trigger T at 'noon';", SiddhiTypeError, "'noon' is no time of a trigger: 'noon' has 1 fields"),
        ("define function f[cobol] return int { x };", ErrorKind.UNKNOWN_EXTENSION, "script:cobol"),
        (
            "define function f[js] return int { x }; define stream S (a int); from S select f(a) as b insert into O;",
            ErrorKind.UNKNOWN_EXTENSION,
            "script:js",
        ),
    ],
)
def test_refused_definitions(text: str, kind: type[SiddhiAppError] | ErrorKind, message: str, catalog: Catalog) -> None:
    found = error(text, catalog)
    assert found.code == getattr(kind, "code", kind)
    assert message in found.message


STREAM = "define stream S (a string, b int, at long); define table T (a string);"


@pytest.mark.parametrize(
    "text",
    [
        "from S select a, sum(b) as t, b group by a aggregate by at every sec, day",
        "from S select a, avg(b) + 1 as t aggregate by a every year",
        "from S#[b > 1] select * aggregate every sec ... year",
    ],
)
def test_aggregations(text: str, catalog: Catalog) -> None:
    assert list(app(f"{STREAM} define aggregation G {text};", catalog).aggregations) == ["G"]


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("from Missing select sum(b) as t aggregate every sec", UndefinedNameError, "'Missing'"),
        ("from T select a aggregate every sec", SiddhiTypeError, "reads a stream, not 'T'"),
        ("from S[b] select sum(b) as t aggregate every sec", SiddhiTypeError, "A filter needs a bool"),
        ("from S select sum(b) as t group by z aggregate every sec", ErrorKind.UNDEFINED_ATTRIBUTE, "no attribute 'z'"),
        ("from S select sum(b) as t aggregate by b every sec", SiddhiTypeError, "'b' is no time"),
        ("from S select sum(b + 1) as t aggregate every sec", SiddhiTypeError, "'sum' takes an attribute here"),
        ("from S select stdDev(b) as t aggregate every sec", UndefinedNameError, "no 'stdDev'"),
        ("from S select a, b as a aggregate every sec", DuplicateDefinitionError, "'a' is selected twice"),
        ("from S select sum(b) as t aggregate every week", SiddhiSyntaxError, "'week' is no duration"),
        ("from S select sum(b) as t aggregate every day ... sec", SiddhiTypeError, "are reversed"),
    ],
)
def test_refused_aggregations(
    text: str, kind: type[SiddhiAppError] | ErrorKind, message: str, catalog: Catalog
) -> None:
    found = error(f"{STREAM} define aggregation G {text};", catalog)
    assert found.code == getattr(kind, "code", kind)
    assert message in found.message


@pytest.mark.parametrize(
    "text",
    [
        "@app:playback(idle.time='1 sec', increment='1 sec') @app:statistics('true') define stream S (a int);",
        "@PrimaryKey('a', 'b') @Index('a') @Index('b') define table T (a int, b int);",
        "@source(ref='x') @sink(type='log', @map(type='json')) define stream S (a int);",
        "@sink(type='log', @distribution(strategy='partitioned', partitionKey='a', @destination(x='y'))) "
        "define stream S (a int);",
        "@whatever(x='y', @nested) define stream S (a int);",
    ],
)
def test_annotations(text: str, catalog: Catalog) -> None:
    app(text, catalog)


# Python reads no number of more than 4300 digits
_LONG = "9" * 5000


@pytest.mark.parametrize(
    ("text", "kind", "part"),
    [
        ("@app:name('x') @app:Name('y') define stream S (a int);", ErrorKind.DUPLICATE_ANNOTATION, "@app:Name('y')"),
        (
            "@app:playback(idle.time='1 sec') define stream S (a int);",
            AppValidationError,
            "@app:playback(idle.time='1 sec')",
        ),
        ("@app:async define stream S (a int);", SiddhiTypeError, "@app:async"),
        ("@app:playback('true') define stream S (a int);", AppValidationError, "@app:playback('true')"),
        (
            "@app:playback(idle.time='soon', increment='1 sec') define stream S (a int);",
            SiddhiSyntaxError,
            "idle.time='soon'",
        ),
        (
            "@app:statistics(interval='x') define stream S (a int);",
            SiddhiTypeError,
            "@app:statistics(interval='x')",
        ),
        ("@async(workers='0') define stream S (a int);", SiddhiTypeError, "@async(workers='0')"),
        ("@async(buffer.size='--5') define stream S (a int);", SiddhiTypeError, "@async(buffer.size='--5')"),
        (f"@async(workers='{_LONG}') define stream S (a int);", SiddhiTypeError, f"@async(workers='{_LONG}')"),
        ("@async @async define stream S (a int);", ErrorKind.DUPLICATE_ANNOTATION, "@async"),
        ("@OnError define stream S (a int);", SiddhiTypeError, "@OnError"),
        ("@OnError('STREAM') define stream S (a int);", SiddhiTypeError, "@OnError('STREAM')"),
        (
            "@OnError(action='STREAM') define stream S (_error int);",
            DuplicateDefinitionError,
            "@OnError(action='STREAM')",
        ),
        ("@OnError(action='PANIC') define stream S (a int);", SiddhiTypeError, "@OnError(action='PANIC')"),
        ("@source(topic='x') define stream S (a int);", SiddhiTypeError, "@source(topic='x')"),
        ("@sink(type='log', @map(x='y')) define stream S (a int);", SiddhiTypeError, "@map(x='y')"),
        (
            "@sink(type='log', @distribution(strategy='nearest', @destination(x='y'))) define stream S (a int);",
            ErrorKind.UNKNOWN_EXTENSION,
            "@distribution(strategy='nearest', @destination(x='y'))",
        ),
        (
            "@sink(type='log', @distribution(strategy='partitioned', partitionKey='b', @destination(x='y'))) "
            "define stream S (a int);",
            AppValidationError,
            "@distribution(strategy='partitioned', partitionKey='b', @destination(x='y'))",
        ),
        ("@PrimaryKey('b') define table T (a int);", ErrorKind.UNDEFINED_ATTRIBUTE, "@PrimaryKey('b')"),
        ("@PrimaryKey define table T (a int);", AppValidationError, "@PrimaryKey"),
        (
            "@PrimaryKey('a') @primarykey('a') define table T (a int);",
            ErrorKind.DUPLICATE_ANNOTATION,
            "@primarykey('a')",
        ),
        ("@Index('b') define table T (a int);", ErrorKind.UNDEFINED_ATTRIBUTE, "@Index('b')"),
        ("@Index('a', 'b') define table T (a int, b int);", AppValidationError, "@Index('a', 'b')"),
        ("@IndexBy('a') define table T (a int);", ErrorKind.UNSUPPORTED, "@IndexBy('a')"),
    ],
)
def test_refused_annotations(text: str, kind: type[SiddhiAppError] | ErrorKind, part: str, catalog: Catalog) -> None:
    found = error(text, catalog)
    assert found.code == getattr(kind, "code", kind)
    assert found.span is not None
    assert text[found.span.start : found.span.end] == part
