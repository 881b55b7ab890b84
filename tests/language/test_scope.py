from __future__ import annotations

import pytest

from spdist.errors import SiddhiAppError, UndefinedNameError
from spdist.language import ast
from spdist.language.checking.scope import AttributeSource, Reference, Scope, pattern_elements, suggestion
from spdist.language.parsing.parser import parse, parse_expression
from spdist.language.types import Schema, Type

LEFT = AttributeSource("a", "Orders", Schema.of([("id", "string"), ("qty", "int")]))
RIGHT = AttributeSource("Ships", "Ships", Schema.of([("id", "string"), ("dock", "long")]))
INNER = AttributeSource("#I", "#I", Schema.of([("id", "string")]))
COUNTED = AttributeSource("e1", "A", Schema.of([("v", "int")]), "state", True)
SINGLE = AttributeSource("e2", "B", Schema.of([("v", "int"), ("w", "double")]), "state")
TABLE = AttributeSource("T", "T", Schema.of([("id", "string"), ("n", "int")]), "table")


def variable(text: str) -> ast.Variable:
    parsed = parse_expression(text)
    assert isinstance(parsed, ast.Variable)
    return parsed


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("qty", Reference(0, 1, Type.INT)),
        ("dock", Reference(1, 1, Type.LONG)),
        ("a.id", Reference(0, 0, Type.STRING)),
        ("Ships.id", Reference(1, 0, Type.STRING)),
        ("#I.id", Reference(2, 0, Type.STRING)),
    ],
)
def test_names_mean_an_attribute_of_a_source(text: str, reference: Reference) -> None:
    assert Scope((LEFT, RIGHT, INNER)).resolve(variable(text)) == reference


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("id", "'id' is ambiguous", "Write a.id or Ships.id or #I.id."),
        ("doc", "There is no attribute 'doc'", "Did you mean 'dock'?"),
        ("a.dok", "'a' has no attribute 'dok'", "It has: id, qty."),
        ("Ships.dok", "'Ships' has no attribute 'dok'", "Did you mean 'dock'?"),
        ("Orders.id", "There is no source called 'Orders' here", "The stream 'Orders' is called 'a' here."),
        ("I.id", "There is no source called 'I' here", "Write '#I', with its mark."),
        ("Ship.id", "There is no source called 'Ship' here", "Did you mean 'Ships'?"),
        ("null", "There is no attribute 'null'", "There is no null constant; write 'a is null'."),
    ],
)
def test_what_is_not_known_is_said_with_what_is(text: str, message: str, hint: str) -> None:
    with pytest.raises(SiddhiAppError) as caught:
        Scope((LEFT, RIGHT, INNER)).resolve(variable(text))
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert caught.value.span is not None


def test_a_counted_element_is_a_list_where_rows_are_selected_and_one_event_in_filters() -> None:
    selection = Scope((COUNTED, SINGLE))
    assert selection.resolve(variable("e1.v")) == Reference(0, 0, Type.OBJECT, multiple=True)
    last = ast.EventIndex(0, True)
    assert selection.resolve(variable("e1[last].v")) == Reference(0, 0, Type.INT, last)
    assert selection.of_element(1).resolve(variable("e1.v")) == Reference(0, 0, Type.INT)


def test_filters_of_an_element_see_earlier_ones_and_their_own_event() -> None:
    three = Scope((COUNTED, SINGLE, AttributeSource("e3", "C", SINGLE.schema, "state")))
    second = three.of_element(1)
    assert second.resolve(variable("w")).source == 1
    assert second.resolve(variable("v")).source == 1
    assert second.resolve(variable("e2.w")).source == 1
    with pytest.raises(UndefinedNameError, match="'e3' is not known here"):
        second.resolve(variable("e3.v"))
    assert three.of_element(1, partner=2).resolve(variable("e3.v")).source == 2
    assert three.of_element(2, partner=1).resolve(variable("e2.v")).source == 1
    with pytest.raises(UndefinedNameError, match="'e1' has no attribute 'w'"):
        three.of_element(0).resolve(variable("w"))


def test_a_table_of_a_condition_is_only_meant_by_its_name() -> None:
    scope = Scope((RIGHT,)).with_table(TABLE)
    assert scope.resolve(variable("id")) == Reference(0, 0, Type.STRING)
    assert scope.resolve(variable("T.n")) == Reference(1, 1, Type.INT)
    with pytest.raises(UndefinedNameError):
        scope.resolve(variable("n"))
    element = Scope((COUNTED, SINGLE)).of_element(0).with_table(TABLE)
    assert element.resolve(variable("T.n")).source == 2
    with pytest.raises(UndefinedNameError):
        element.resolve(variable("e2.v"))


def test_the_first_of_equal_names_counts() -> None:
    assert Scope((COUNTED, AttributeSource("e1", "B", SINGLE.schema))).find(ast.StreamRef("e1")) == 0


def test_star_is_everything_in_siddhis_order() -> None:
    scope = Scope((COUNTED, SINGLE), star_order=(1, 0))
    assert [scope.name_of(reference) for reference in scope.star()] == ["v", "w", "v"]
    assert [reference.type for reference in scope.star()] == [Type.INT, Type.DOUBLE, Type.INT]


def test_elements_of_a_pattern_are_in_the_order_of_the_text() -> None:
    app = parse(
        "define stream A (v int); from every (a=A -> b=A<2>) -> not A for 1 sec -> c=A and not A "
        "select 1 as x insert into Out"
    )
    (query,) = app.elements
    assert isinstance(query, ast.Query)
    assert isinstance(query.input, ast.PatternInput)
    found = [(getattr(element, "alias", "not"), counted) for element, counted in pattern_elements(query.input.element)]
    assert found == [("a", False), ("b", True), ("not", False), ("c", False), ("not", False)]


def test_suggestions_ignore_case_and_stay_away_from_other_words() -> None:
    assert suggestion("PRICE", ["price", "symbol"]) == "Did you mean 'price'?"
    assert suggestion("timebatch", ["timeBatch", "lengthBatch"]) == "Did you mean 'timeBatch'?"
    assert suggestion("xyz", ["price"]) is None
