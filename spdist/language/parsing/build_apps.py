"""Parse trees to apps: annotations, definitions, queries, partitions and on-demand queries."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from spdist.errors import SiddhiSyntaxError
from spdist.language import ast
from spdist.language.parsing.build_expressions import Branch
from spdist.language.parsing.build_inputs import InputBuilder, source_names
from spdist.language.parsing.places import Places
from spdist.language.types import Type

__all__ = ["AppBuilder"]


class AppBuilder(InputBuilder):
    """Builds every rule of the grammar.

    Parameters
    ----------
    places : Places
        For the nodes' spans.
    text : str
        The text that was parsed, variables replaced.
    """

    def __init__(self, places: Places, text: str) -> None:
        super().__init__(places)
        self._text_parsed = text

    # --- the app -----------------------------------------------------------------------------------------------------

    def _app(self, branch: Branch) -> ast.SiddhiApp:
        built = self.all(branch)
        annotations = tuple(node for node in built if isinstance(node, ast.Annotation))
        definitions = tuple(node for node in built if isinstance(node, ast.Definition))
        elements = tuple(node for node in built if isinstance(node, ast.Query | ast.Partition))
        self._check_layout(built, has_definitions=bool(definitions))
        return ast.SiddhiApp(annotations, definitions, elements, span=self.span(branch))

    def _check_layout(self, built: Iterable[ast.Node], *, has_definitions: bool) -> None:
        seen_query = False
        for node in built:
            if isinstance(node, ast.Query | ast.Partition):
                seen_query = True
                if not has_definitions:
                    self._refuse(node, "An app starts with at least one definition", "define stream S (a string);")
            elif seen_query:
                self._refuse(node, "A definition behind the first query", "Move it before all queries and partitions.")

    def _refuse(self, node: ast.Node, message: str, hint: str) -> None:
        raise SiddhiSyntaxError(message, span=node.span, hint=hint, text=self._places.written)

    # --- annotations -------------------------------------------------------------------------------------------------

    def _app_annotation(self, branch: Branch) -> ast.Annotation:
        annotation = self._annotation(branch)
        return dataclasses.replace(annotation, name=f"app:{annotation.name}")

    def _annotation(self, branch: Branch) -> ast.Annotation:
        parts = self.all(branch)
        return ast.Annotation(
            self.name(branch.children[0]),
            tuple(part for part in parts if isinstance(part, ast.AnnotationElement)),
            tuple(part for part in parts if isinstance(part, ast.Annotation)),
            span=self.span(branch),
        )

    def _annotations(self, branch: Branch) -> tuple[ast.Annotation, ...]:
        return self.all(branch)

    def _pair(self, branch: Branch) -> ast.AnnotationElement:
        *key, value = branch.children
        return ast.AnnotationElement(self.build(key[0]) if key else None, self.string(value), span=self.span(branch))

    def _key(self, branch: Branch) -> str:
        if branch.children[0].type == "STRING":
            return self.string(branch.children[0])
        return "".join(self.name(leaf) for leaf in branch.children)

    # --- definitions -------------------------------------------------------------------------------------------------

    def _attributes(self, branch: Branch) -> tuple[ast.Attribute, ...]:
        attributes: tuple[ast.Attribute, ...] = self.all(branch)
        return attributes

    def _distinct(self, branch: Branch) -> tuple[ast.Attribute, ...]:
        """Return attributes of different names; those of tables are left to the checker, as in Siddhi."""
        attributes = self._attributes(branch)
        seen: set[str] = set()
        for child, attribute in zip(branch.children, attributes, strict=True):
            if attribute.name in seen:
                self.fail(child, f"The attribute '{attribute.name}' is already defined")
            seen.add(attribute.name)
        return attributes

    def _attribute(self, branch: Branch) -> ast.Attribute:
        name, kind = branch.children
        return ast.Attribute(self.name(name), Type(str(kind).lower()), span=self.span(branch))

    def _common(self, branch: Branch) -> dict[str, Any]:
        """Return what all definitions have: name, annotations, span."""
        return {
            "name": self.name(self.tokens(branch, "NAME")[0]),
            "annotations": self.build(branch.children[0]),
            "span": self.span(branch),
        }

    def _stream_definition(self, branch: Branch) -> ast.StreamDefinition:
        return ast.StreamDefinition(attributes=self._distinct(branch.children[2]), **self._common(branch))

    def _table_definition(self, branch: Branch) -> ast.TableDefinition:
        return ast.TableDefinition(attributes=self.build(branch.children[2]), **self._common(branch))

    def _window_definition(self, branch: Branch) -> ast.WindowDefinition:
        parts = self.parts(branch)
        attributes = self._distinct(branch.children[2])
        return ast.WindowDefinition(
            attributes=attributes, window=parts["call"], output=parts.get("events"), **self._common(branch)
        )

    def _trigger_definition(self, branch: Branch) -> ast.TriggerDefinition:
        at = [self.string(leaf) for leaf in self.tokens(branch, "STRING")]
        every = self.parts(branch).get("time")
        return ast.TriggerDefinition(every=every, at=at[0] if at else None, **self._common(branch))

    def _function_definition(self, branch: Branch) -> ast.FunctionDefinition:
        language, kind = self.tokens(branch)[1:]
        return ast.FunctionDefinition(
            language=self.name(language),
            returns=Type(str(kind).lower()),
            body=self.parts(branch)["script"],
            **self._common(branch),
        )

    def _script(self, branch: Branch) -> str:
        # The text as it stands between the braces: comments and spaces of the other language count.
        return self._text_parsed[branch.meta.start_pos + 1 : branch.meta.end_pos - 1]

    def _aggregation_definition(self, branch: Branch) -> ast.AggregationDefinition:
        parts = self.parts(branch)
        self._check_aggregation(branch, parts)
        units, is_range = parts["durations"]
        return ast.AggregationDefinition(
            input=parts["source"],
            select=parts["selection"],
            aggregate_by=parts.get("aggregate_by"),
            durations=units,
            is_range=is_range,
            **self._common(branch),
        )

    def _check_aggregation(self, branch: Branch, parts: dict[str, Any]) -> None:
        select: ast.Selection = parts["selection"]
        place = next(child for child in branch.children if getattr(child, "data", "") == "selection")
        if select.having is not None or select.order_by or select.limit is not None or select.offset is not None:
            self.fail(place, "An aggregation takes 'select' and 'group by' only", "Filter and sort when you read it.")
        if parts["source"].window is not None:
            self.fail(branch.children[2], "An aggregation takes no window", "Its durations are its windows.")

    def _aggregate_by(self, branch: Branch) -> ast.Variable:
        variable: ast.Variable = self.build(branch.children[0])
        return variable

    def _durations(self, branch: Branch) -> tuple[tuple[str, ...], bool]:
        return tuple(self.unit(leaf) for leaf in self.tokens(branch, "UNIT")), bool(self.tokens(branch, "DOTS"))

    # --- queries -----------------------------------------------------------------------------------------------------

    def _query(self, branch: Branch) -> ast.Query:
        # Before anything is built: only so is `e1 is null` known to ask for an event
        self._sources = source_names(branch.children[1])
        annotations, query_input, *rest = self.all(branch)
        everything = ast.Selection(span=query_input.span)
        select = next((part for part in rest if isinstance(part, ast.Selection)), everything)
        rate = next((part for part in rest if isinstance(part, ast.OutputRate)), None)
        return ast.Query(query_input, rest[-1], select, rate, annotations, span=self.span(branch))

    def _anonymous(self, branch: Branch) -> ast.AnonymousInput:
        outer = self._sources
        query = self._query(branch)
        self._sources = outer
        if not isinstance(query.output, ast.Return):
            self.fail(branch.children[-1], "A query in parentheses ends with 'return'")
        return ast.AnonymousInput(query, span=self.span(branch))

    def _partition(self, branch: Branch) -> ast.Partition:
        annotations, *rest = self.all(branch)
        keys = tuple(part for part in rest if isinstance(part, ast.PartitionKey))
        queries = tuple(part for part in rest if isinstance(part, ast.Query))
        return ast.Partition(keys, queries, annotations, span=self.span(branch))

    def _value_key(self, branch: Branch) -> ast.PartitionKey:
        value, stream = self.all(branch)
        return ast.PartitionKey(stream, value, span=self.span(branch))

    def _range_key(self, branch: Branch) -> ast.PartitionKey:
        *ranges, stream = self.all(branch)
        return ast.PartitionKey(stream, ranges=tuple(ranges), span=self.span(branch))

    def _range(self, branch: Branch) -> ast.RangeCondition:
        condition, label = branch.children
        return ast.RangeCondition(self.build(condition), self.string(label), span=self.span(branch))

    def _read(self, branch: Branch) -> ast.OnDemandQuery:
        store, *alias = [self.name(leaf) for leaf in self.tokens(branch, "NAME")]
        return dataclasses.replace(self._change(branch), store=store, alias=alias[0] if alias else None)

    def _change(self, branch: Branch) -> ast.OnDemandQuery:
        parts = self.parts(branch)
        return ast.OnDemandQuery(
            on=parts.get("on"),
            within=parts.get("within_range", ()),
            per=parts.get("per"),
            select=parts.get("selection", ast.Selection(span=self.span(branch))),
            output=next((part for part in parts.values() if isinstance(part, ast.Output)), None),
            span=self.span(branch),
        )

    # --- selection and rate ------------------------------------------------------------------------------------------

    def _selection(self, branch: Branch) -> ast.Selection:
        items = tuple(self.build(child) for child in branch.children if getattr(child, "data", "") == "item")
        rest = {child.data: self.build(child) for child in branch.children if getattr(child, "data", "item") != "item"}
        return ast.Selection(items, span=self.span(branch), **rest)

    def _item(self, branch: Branch) -> ast.SelectItem:
        expression = self.build(branch.children[0])
        names = self.tokens(branch, "NAME")
        if not names and not isinstance(expression, ast.Variable):
            self.fail(branch, "A calculated value needs a name", "Put 'as name' behind the expression.")
        return ast.SelectItem(expression, self.name(names[0]) if names else None, span=self.span(branch))

    def _group_by(self, branch: Branch) -> tuple[ast.Variable, ...]:
        return self.all(branch)

    def _having(self, branch: Branch) -> ast.Expression:
        expression: ast.Expression = self.build(branch.children[0])
        return expression

    def _order_by(self, branch: Branch) -> tuple[ast.OrderBy, ...]:
        return self.all(branch)

    def _order(self, branch: Branch) -> ast.OrderBy:
        descending = [str(leaf).lower() for leaf in self.tokens(branch)] == ["desc"]
        return ast.OrderBy(self.build(branch.children[0]), descending, span=self.span(branch))

    def _limit(self, branch: Branch) -> ast.Literal:
        constant = self.build(branch.children[0])
        if not isinstance(constant, ast.Literal) or constant.type not in (Type.INT, Type.LONG):
            self.fail(branch.children[0], f"'{branch.data}' takes an int or long constant, no expression")
        return constant

    _offset = _limit

    def _event_rate(self, branch: Branch) -> ast.OutputRate:
        return ast.OutputRate(
            self._rate_kind(branch), self.integer(self.tokens(branch, "INT")[0]), span=self.span(branch)
        )

    def _time_rate(self, branch: Branch) -> ast.OutputRate:
        return ast.OutputRate(self._rate_kind(branch), time=self.all(branch)[0], span=self.span(branch))

    def _rate_kind(self, branch: Branch) -> Any:
        kinds = self.tokens(branch, "ALL", "FIRST", "LAST", "SNAPSHOT")
        return str(kinds[0]).lower() if kinds else "all"

    # --- outputs -----------------------------------------------------------------------------------------------------

    def _output(self, branch: Branch) -> ast.Output:
        output: ast.Output = self.build(branch.children[0])
        return output

    def _events(self, branch: Branch) -> str:
        word = str(branch.children[0]).lower()
        return "current" if word == "events" else word

    def _for(self, branch: Branch) -> str:
        return self._events(branch.children[0])

    def _insert(self, branch: Branch) -> ast.InsertInto:
        parts = self.parts(branch)
        return ast.InsertInto(parts["stream"], parts.get("events"), span=self.span(branch))

    def _delete(self, branch: Branch) -> ast.Delete:
        parts = self.parts(branch)
        return ast.Delete(parts["stream"], parts.get("for"), parts.get("on"), span=self.span(branch))

    def _update(self, branch: Branch) -> ast.Update:
        parts = self.parts(branch)
        return ast.Update(
            parts["stream"], parts.get("for"), parts.get("set", ()), parts.get("on"), span=self.span(branch)
        )

    def _upsert(self, branch: Branch) -> ast.Update:
        return dataclasses.replace(self._update(branch), or_insert=True)

    def _return(self, branch: Branch) -> ast.Return:
        return ast.Return(None, self.parts(branch).get("events"), span=self.span(branch))

    def _set(self, branch: Branch) -> tuple[ast.SetItem, ...]:
        return self.all(branch)

    def _assignment(self, branch: Branch) -> ast.SetItem:
        variable, expression = self.all(branch)
        return ast.SetItem(variable, expression, span=self.span(branch))
