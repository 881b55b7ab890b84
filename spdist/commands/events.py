"""Commands for events: feeding streams of a running app, following them, asking why, and questions to tables."""

from __future__ import annotations

import csv
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from spdist.clock import written_ms
from spdist.commands.connection import AppName, AsJson, as_text, connected, output, print_json, shown_time, table
from spdist.commands.lines import Lines, opened_lines
from spdist.errors import MappingError

if TYPE_CHECKING:
    from spdist.cluster.clients.client import ClusterClient
    from spdist.cluster.clients.feeding import RemoteFeed
    from spdist.language.types import Schema

__all__ = ["Form", "add_to", "read_lines"]

_LOT = 5_000
_TOLD = 20
#: An id that receivers of messages see, such as Rooms-alert-1#0:17, or of Spark Columns trades/0/42/1.
_ID = re.compile(r"\S.*:[0-9]+|[^/\s]+(/[0-9]+){3}")
_Stream = Annotated[str, typer.Argument(metavar="STREAM", help="The stream's name in the app.")]


class Form(StrEnum):
    """How events are written."""

    JSON = "json"
    CSV = "csv"


@connected
def feed(
    client: ClusterClient,
    app: AppName,
    stream: _Stream,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="With the events; - for standard input.")] = Path("-"),
    form: Annotated[
        Form | None, typer.Option("--format", help="JSON lines, or CSV with a header; by default by the file's name.")
    ] = None,
    time_column: Annotated[
        str, typer.Option("--time", help="What holds an event's time: ms since 1970 or ISO 8601; else it is now.")
    ] = "timestamp",
    producer: Annotated[
        str | None, typer.Option("--producer", help="Under this name the same file again is not counted twice.")
    ] = None,
) -> None:
    """Feed events into a stream: {"symbol": "IBM", "price": 75.0}, REST's {"timestamp": …, "event": {…}}, or CSV.

    Also REST's {"timestamp": …, "data": […]}. What comes slowly, as from a pipe, is sent as it comes.
    """
    form = form or (Form.CSV if file.suffix.lower() == ".csv" else Form.JSON)
    target = client.feed(app, stream, producer)
    try:
        with opened_lines(file) as lines:
            _send(target, read_lines(lines, form, target.schema, stream, time_column, lines.idle), lines)
    finally:  # also where it ends in the middle: who goes on has to know how many were accepted
        Console(stderr=True).print(f"{target.sent} events", highlight=False)


def _send(target: RemoteFeed, events: Iterator[tuple[int, tuple[Any, ...]]], lines: Lines) -> None:
    """Send events lot by lot, and show how far it is."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("0 events", total=lines.size)
        while lot := _lot(events, lines):
            for _ in target.each(lot):
                progress.update(bar, completed=lines.read, description=f"{target.sent} events")


def _lot(events: Iterator[tuple[int, tuple[Any, ...]]], lines: Lines) -> list[tuple[int, tuple[Any, ...]]]:
    """Return the events that are sent next: so many, or those that are there; none at the end."""
    lot = []
    for event in events:
        lot.append(event)
        if len(lot) == _LOT or lines.idle():
            break
    return lot


def _never() -> bool:
    return False


def read_lines(
    lines: Iterable[str],
    form: Form,
    schema: Schema,
    stream: str,
    time_column: str = "timestamp",
    idle: Callable[[], bool] = _never,
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the events of lines as ``(timestamp ms, row)``.

    Parameters
    ----------
    lines : iterable of str
        JSON lines, or CSV with a header.
    form : Form
        Which of them.
    schema, stream
        The stream's attributes, and its name for errors.
    time_column : str
        What holds the time of an event.
    idle : callable, optional
        Whether more lines may be long in coming: then the wrong ones that are known are told.

    Raises
    ------
    MappingError
        Lines hold no events of the stream; names them. Those before have been yielded.
    """
    read = (
        _csv_lines(lines, schema, time_column) if form is Form.CSV else _json_lines(lines, schema, stream, time_column)
    )
    wrong: list[str] = []
    for number, event in read:
        try:
            made = event()
        except (MappingError, ValueError, TypeError, RecursionError) as error:
            wrong.append(f"line {number}: {error.message if isinstance(error, MappingError) else error}")
        # Nothing behind a wrong line is sent: the rest is read to tell what else is wrong.
        if not wrong:
            yield made
        elif len(wrong) == _TOLD or idle():
            break
    if wrong:
        raise MappingError(
            f"{len(wrong)} lines{' or more' * (len(wrong) == _TOLD)} hold no events of stream {stream}: "
            f"{'; '.join(wrong)}",
            hint="those before the first of them may have been accepted; see --producer",
        )


_Event = Callable[[], tuple[int, tuple[Any, ...]]]


def _json_lines(lines: Iterable[str], schema: Schema, stream: str, time_column: str) -> Iterator[tuple[int, _Event]]:
    from spdist.cluster.protocol.rows import from_json_event
    from spdist.transports.feed import checked_row

    def event(line: str) -> tuple[int, tuple[Any, ...]]:
        found = json.loads(line)
        if not isinstance(found, dict):
            raise MappingError(f"it is no JSON object: {line.strip()[:80]}")
        ts = _time(found.get(time_column))
        form = next((name for name, kind in _FORMS.items() if _is_rest(found, name, kind, time_column, schema)), None)
        if form is not None:
            found = found[form]
        elif time_column not in schema.names:
            found = {name: value for name, value in found.items() if name != time_column}
        return ts, checked_row(schema, ts, from_json_event(schema, found))

    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, lambda line=line: event(line)  # type: ignore[misc]


#: How REST has the values of an event: by their names, or in the stream's order.
_FORMS: dict[str, type] = {"event": dict, "data": list}


def _is_rest(found: dict[str, Any], name: str, kind: type, time_column: str, schema: Schema) -> bool:
    """Return whether this is an event as REST has it; an attribute may have the name of the form, too."""
    if not isinstance(inner := found.get(name), kind) or not found.keys() <= {name, time_column, "id"}:
        return False
    return name not in schema.names or (isinstance(inner, dict) and inner.keys() == set(schema.names))


def _csv_lines(lines: Iterable[str], schema: Schema, time_column: str) -> Iterator[tuple[int, _Event]]:
    from spdist.transports.feed import checked_row

    reader = csv.DictReader(lines, strict=True)

    def event(record: dict[str, Any]) -> tuple[int, tuple[Any, ...]]:
        # DictReader has None for columns that a line lacks, and under the key None what it has too many.
        missing = [name for name in schema.names if record.get(name) is None]
        if missing or None in record:
            raise MappingError(f"it has not the columns of {schema}, {', '.join(missing) or 'but more'}")
        values = tuple(_csv_value(name, kind.value, record[name]) for name, kind in schema)
        ts = _time(record.get(time_column) or None)
        return ts, checked_row(schema, ts, values)

    try:
        for record in reader:
            yield reader.line_num, lambda record=record: event(record)  # type: ignore[misc]
    except csv.Error as error:
        raise MappingError(f"line {reader.line_num} is no CSV: {error}") from error


def _csv_value(name: str, kind: str, text: str) -> Any:
    """Return a field of CSV as a value; nothing is null."""
    if not text:
        return None
    try:
        if "_" in text and kind != "string":
            raise ValueError  # Python reads 1_000 as a number
        if kind in ("int", "long"):
            return int(text)
        if kind in ("float", "double"):
            return float(text)
        if kind == "bool":
            return {"true": True, "false": False}[text.strip().lower()]
    except (ValueError, KeyError):
        raise MappingError(f"the attribute {name} is of type {kind}, {text!r} is not") from None
    return text


def _time(value: Any) -> int:
    """Return a time as ms since 1970; none is now."""
    if value is None:
        return int(time.time() * 1000)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = str(value)
    with suppress(ValueError):
        return written_ms(text)
    # Only for a form that is seldom written: it takes a second to load
    from spdist.frames import written_instant

    return written_instant(text)


@connected
def tail(
    client: ClusterClient,
    app: AppName,
    stream: _Stream,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more, until Ctrl-C.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Only what comes from now on.")] = False,
    as_table: Annotated[bool, typer.Option("--table", help="Print tables instead of JSON lines.")] = False,
) -> None:
    """Print the events of a published stream, each once: JSON lines that `spdist feed` and `spdist why` take."""
    from spdist.cluster.protocol.rows import to_json_row
    from spdist.transports.payloads.headers import ID_HEADER

    for page in client.pages(app, stream, "end" if new else "", follow=follow):
        names = page.schema.names
        if as_table and page.events:
            rows = [(shown_time(one[0]), *one[1], one.id) for one in page.events]
            output().print(table("", ("time", *names, ID_HEADER), rows))
        elif not as_table:
            for one in page.events:
                event = dict(zip(names, to_json_row(one[1]), strict=True))
                typer.echo(as_text({"timestamp": one[0], "event": event} | ({"id": one.id} if one.id else {})))


@connected
def query(
    client: ClusterClient,
    app: AppName,
    text: Annotated[str, typer.Argument(metavar="QUERY", help="Such as: from T on price > 10.0 select *")],
    as_json: AsJson = False,
) -> None:
    """Ask a running app on demand for rows of its tables, windows and aggregations."""
    names, rows = client.query_named(app, text)
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        output().print(table("", names, rows))


@connected
def why(
    client: ClusterClient,
    app: AppName,
    stream: _Stream,
    event: Annotated[
        str,
        typer.Argument(
            metavar="EVENT", help="An id or a line of `spdist tail`, some values, a spdist-id; by default the last one."
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Tell why an event came out: what came in that caused it, such as: spdist why Rooms Alerts '{"room": "attic"}'."""
    target, id = client.deployment(app), event.strip()
    found = target.explain(stream, id=id) if _is_id(id) else target.explain(stream, **_meant(event))
    if as_json:
        print_json(found.to_dict())
    else:
        typer.echo(str(found))


def _is_id(text: str) -> bool:
    return not text.startswith(("{", "[")) and _ID.fullmatch(text) is not None


def _meant(text: str) -> dict[str, Any]:
    """Return which event is meant, as `Deployment.explain` takes it."""
    if not text.strip():
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found:
        raise typer.BadParameter(f'{text[:80]!r} is no event: write it like {{"room": "attic"}}', param_hint="EVENT")
    if {"timestamp", "event"} <= found.keys() <= {"timestamp", "event", "id"} and isinstance(found["event"], dict):
        at, id = _time(found["timestamp"]), found.get("id")
        # The id says which one; the time, that it is not one of an earlier state that had the same numbers.
        return {"which": (at, found["event"])} if id is None else {"which": (at, {}), "id": str(id)}
    return {"which": found}


def add_to(app: typer.Typer) -> None:
    """Add these commands."""
    for command in (feed, tail, query, why):
        app.command(rich_help_panel="A running cluster")(command)
