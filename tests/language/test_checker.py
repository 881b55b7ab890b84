from __future__ import annotations

import pytest

from spdist.errors import (
    AppValidationError,
    DuplicateDefinitionError,
    ErrorKind,
    SiddhiAppError,
    SiddhiTypeError,
    UndefinedNameError,
)
from spdist.language.catalog import Catalog
from spdist.language.checking.checker import CheckedApp, CheckedPartition, check
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema

STREAMS = "define stream A (id string, v int); define stream B (id string, v int);\n"


def checked(text: str, catalog: Catalog) -> CheckedApp:
    return check(parse(STREAMS + text), catalog, STREAMS + text)


def errors_of(text: str, catalog: Catalog) -> tuple[SiddhiAppError, ...]:
    with pytest.raises(SiddhiAppError) as caught:
        checked(text, catalog)
    return caught.value.errors


def test_an_app_has_its_names_and_types(catalog: Catalog) -> None:
    app = checked(
        "@info(name='first') from A[v > 2]#window.length(3) select id, sum(v) as total group by id insert into M;"
        "from M select total insert into Out;",
        catalog,
    )
    assert (app.name, app.playback) == ("SiddhiApp", False)
    assert app.streams == {
        "A": Schema.of([("id", "string"), ("v", "int")]),
        "B": Schema.of([("id", "string"), ("v", "int")]),
        "M": Schema.of([("id", "string"), ("total", "long")]),
        "Out": Schema.of([("total", "long")]),
    }
    first, second = app.queries
    assert [(query.name, query.target, query.partition) for query in (first, second)] == [
        ("first", "M", None),
        ("query_2", "Out", None),
    ]
    assert first.output == app.streams["M"]
    assert [source.name for source in second.scope.sources] == ["M"]


def test_name_and_playback_come_from_annotations(catalog: Catalog) -> None:
    text = "@app:name('Shop') @app:playback define stream S (a int);"
    app = check(parse(text), catalog)
    assert (app.name, app.playback, app.elements) == ("Shop", True, ())


def test_partitions_have_inner_streams_of_their_own(catalog: Catalog) -> None:
    app = checked(
        """from A insert into Before;
        partition with (id of A, v < 5 as 'low' of B) begin
            from A select v insert into #I; @info(name='read') from #I[v > 1] select #I.v as w insert into Out; end;
        partition with (id of Before) begin from Before select id insert into #I; from #I insert into Ids; end;
        from Out select w insert into Last;""",
        catalog,
    )
    first, second = app.partitions
    assert first.inner == {"#I": Schema.of([("v", "int")])}
    assert second.inner == {"#I": Schema.of([("id", "string")])}
    assert list(first.keys) == ["A", "B"]
    assert [(query.name, query.target, query.partition) for query in first.queries] == [
        ("query_2", "#I", 0),
        ("read", "Out", 0),
    ]
    assert [query.name for query in second.queries] == ["query_4", "query_5"]
    assert [isinstance(element, CheckedPartition) for element in app.elements] == [False, True, True, False]
    assert "#I" not in app.streams
    assert app.streams["Ids"] == Schema.of([("id", "string")])


def test_inner_streams_outside_of_partitions_are_ordinary_ones(catalog: Catalog) -> None:
    app = checked("from A select v insert into #I; from #I select v insert into Out;", catalog)
    assert app.streams["#I"] == Schema.of([("v", "int")])


def test_all_errors_are_reported_in_the_order_of_the_text(catalog: Catalog) -> None:
    text = """from A[w > 1 and v] select id, nothing(v) as x, v as id having id > 3 insert into Out;
    from Missing select * insert into Out2;
    from A#window.length('2') select v insert into Out3;"""
    errors = errors_of(text, catalog)
    assert [error.code for error in errors] == [
        ErrorKind.UNDEFINED_ATTRIBUTE,
        SiddhiTypeError.code,
        ErrorKind.UNKNOWN_EXTENSION,
        DuplicateDefinitionError.code,
        UndefinedNameError.code,
        SiddhiTypeError.code,
    ]
    assert [error.span.line for error in errors if error.span] == [2, 2, 2, 2, 3, 4]
    with pytest.raises(SiddhiAppError) as caught:
        checked(text, catalog)
    message = str(caught.value)
    assert message.startswith("The app has 6 errors\n1. ")
    assert "from Missing select" in message


def test_one_error_is_raised_as_itself_with_its_line(catalog: Catalog) -> None:
    with pytest.raises(UndefinedNameError) as caught:
        checked("from A select price insert into Out;", catalog)
    assert caught.value.errors == (caught.value,)
    assert str(caught.value).splitlines()[1:3] == ["from A select price insert into Out;", "              ^^^^^"]


def test_what_is_not_understood_causes_no_further_errors(catalog: Catalog) -> None:
    text = """from A select wrong insert into M;
    from M select anything, more insert into N;
    from N join M on N.a == M.b select N.a insert into O;
    from every e1=M -> e2=A[v > e1.x] select e1.y insert into P;
    partition with (key of M) begin from M select z insert into #I; from #I select q insert into Q; end;
    from Q select r insert into R;"""
    (error,) = errors_of(text, catalog)
    assert error.message == "'A' has no attribute 'wrong'"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("from M select v insert into Out; from A insert into M;", UndefinedNameError),
        ("@info(name='q') from A insert into O; @info(name='q') from A insert into P;", AppValidationError),
        (
            "@info(name='q') from A insert into O; "
            "partition with (id of A) begin @info(name='q') from A insert into P; end;",
            AppValidationError,
        ),
        ("@info(name='query_2') from A insert into O; from A insert into P;", AppValidationError),
        ("partition with (id of Missing) begin from A insert into O; end;", UndefinedNameError),
        ("partition with (id of M) begin from A insert into M; end;", UndefinedNameError),
        ("partition with (street of A) begin from A insert into O; end;", ErrorKind.UNDEFINED_ATTRIBUTE),
        ("partition with (id of A, v of A) begin from A insert into O; end;", AppValidationError),
        ("partition with (v as 'x' of A) begin from A insert into O; end;", SiddhiTypeError),
        ("partition with (sum(v) of A) begin from A insert into O; end;", ErrorKind.UNSUPPORTED),
        ("partition with (id of A) begin from #I insert into O; from A insert into #I; end;", UndefinedNameError),
        (
            "partition with (id of A) begin from A insert into #I; end; "
            "partition with (id of A) begin from #I insert into O; end;",
            UndefinedNameError,
        ),
        ("@purge(enable='true') partition with (id of A) begin from A insert into O; end;", SiddhiTypeError),
        (
            "@purge(enable='maybe', idle.period='1 sec') partition with (id of A) begin from A insert into O; end;",
            SiddhiTypeError,
        ),
    ],
)
def test_refused_elements(text: str, kind: type[SiddhiAppError] | ErrorKind, catalog: Catalog) -> None:
    (error,) = errors_of(text, catalog)
    assert error.code == getattr(kind, "code", kind)
    assert error.span is not None


@pytest.mark.parametrize("annotation", ["@purge(enable='true', idle.period='1 sec')", "@info(name='p')", ""])
def test_partitions_with_annotations(annotation: str, catalog: Catalog) -> None:
    app = checked(f"{annotation} partition with (v + 1 of A) begin from A insert into O; end;", catalog)
    assert len(app.partitions) == 1
