"""What changes the rows of a table: ``delete``, ``update`` and ``update or insert``, in queries and on demand."""

from __future__ import annotations

from spdist.errors import (
    AppValidationError,
    DuplicateDefinitionError,
    ErrorKind,
    SiddhiSyntaxError,
    SiddhiTypeError,
    UndefinedNameError,
)
from spdist.language import ast
from spdist.language.checking.names import Names
from spdist.language.checking.scope import AttributeSource, Scope, suggestion, undefined
from spdist.language.types import Schema

__all__ = ["EVENT", "change_scope", "check_change", "refuse_schema"]

#: How the row that changes a table is called in messages; conditions cannot call it.
EVENT = "what is selected"


def change_scope(event: Schema, table_id: str, table: Schema, tables: tuple[AttributeSource, ...]) -> Scope:
    """Return what a condition of a change may name: bare names mean what is selected, the table is called by its name.

    Parameters
    ----------
    event : Schema
        What is selected; source 0.
    table_id, table : str, Schema
        The table; source 1.
    tables : tuple of AttributeSource
        What ``in`` may name.
    """
    return Scope((AttributeSource(EVENT, EVENT, event),), tables=tables).with_table(
        AttributeSource(table_id, table_id, table, "table")
    )


def check_change(names: Names, output: ast.Delete | ast.Update, target: ast.StreamRef, event: Schema) -> None:
    """Check what is done to a table with each row that a query, whose output is `event`, selects."""
    table = names.tables.get(target.id)
    if table is None:
        names.report(undefined("table", target.id, target.span, names.tables))
        return
    scope = change_scope(event, target.id, table, names.all_tables())
    # Only errors from here on belong to the change
    before = len(names.errors)
    if output.on is None:
        verb = "delete" if isinstance(output, ast.Delete) else "update"
        kind = SiddhiTypeError if isinstance(output, ast.Delete) else SiddhiSyntaxError
        names.refuse(kind, f"'{verb}' needs a condition", output.span, "Say which rows: … on true means all of them.")
    else:
        names.condition(output.on, scope, "'on'")
    if isinstance(output, ast.Update):
        _check_assignments(names, output, target.id, table, scope)
        _check_columns(names, output, target, event, table)
    # Siddhi reports whatever is wrong with a change as an error of the query, unknown attributes too.
    names.errors[before:] = [
        UndefinedNameError(error.message, span=error.span, hint=error.hint)
        if isinstance(error, AppValidationError) or error.code == ErrorKind.UNDEFINED_ATTRIBUTE
        else error
        for error in names.errors[before:]
    ]


def refuse_schema(names: Names, target: ast.StreamRef, event: Schema, known: Schema) -> None:
    """Report that what is selected is not what the target takes."""
    message = f"'{target.id}' is {known}, but the query puts out {event}"
    hint = "Names, types and their order must be the same; convert(value, 'type') changes a type."
    names.refuse(DuplicateDefinitionError, message, target.span, hint)


def _check_assignments(names: Names, update: ast.Update, table_id: str, table: Schema, scope: Scope) -> None:
    for item in update.set:
        names.type_of(item.expression, scope)
        variable = item.variable
        if variable.stream is not None and variable.stream.id != table_id:
            hint = f"Only attributes of '{table_id}' can be set."
            names.refuse(UndefinedNameError, f"'{variable.stream.id}' is not what is updated", variable.span, hint)
        elif table.index(variable.name) is None:
            near = suggestion(variable.name, table.names)
            names.refuse(UndefinedNameError, f"'{table_id}' has no attribute '{variable.name}'", variable.span, near)


def _check_columns(names: Names, update: ast.Update, target: ast.StreamRef, event: Schema, table: Schema) -> None:
    """Without ``set`` equal names are overwritten; ``update or insert`` must be able to insert the row."""
    if update.set and not update.or_insert:
        return
    for name, kind in event:
        position = table.index(name)
        if position is None or table.types[position] is not kind:
            hint = f"'{target.id}' is {table}."
            if not update.or_insert:
                hint += f" Say what to set: update {target.id} set {target.id}.… = …"
            message = f"'{target.id}' has no attribute '{name}' of type {kind}"
            names.refuse(SiddhiTypeError, message, update.span, hint)
            return
    if update.or_insert and event != table:
        refuse_schema(names, target, event, table)
