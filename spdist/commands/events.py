"""Commands for events: feeding streams of a running app, following them, and questions to it."""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from spdist.commands.connection import AppName, AsJson, connected, print_json, table
from spdist.errors import MappingError

if TYPE_CHECKING:
    from spdist.cluster.client import ClusterClient
    from spdist.cluster.feeding import RemoteFeed
    from spdist.language.types import Schema

__all__ = ["Form", "add_to", "read_lines"]

_LOT = 5_000
_TOLD = 20
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
    """Feed events into a stream: {"symbol": "IBM", "price": 75.0} or {"timestamp": …, "event": {…}}, or CSV."""
    form = form or (Form.CSV if file.suffix.lower() == ".csv" else Form.JSON)
    target = client.feed(app, stream, producer)
    with _opened(file) as (source, size):
        sent = _send(target, read_lines(source, form, target.schema, stream, time_column), size, source)
    Console(stderr=True).print(f"{sent} events", highlight=False)


def _send(target: RemoteFeed, events: Iterator[tuple[int, tuple[Any, ...]]], size: int | None, source: IO[str]) -> int:
    """Send events lot by lot, and show how far it is."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("0 events", total=size)
        while lot := list(islice(events, _LOT)):
            for _ in target.each(lot):
                read = source.buffer.tell() if size is not None and hasattr(source, "buffer") else 0
                progress.update(bar, completed=read, description=f"{target.sent} events")
    return target.sent


@contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[str], int | None]]:
    """Open a file, or standard input, and tell its size where it is known."""
    if str(path) == "-":
        yield sys.stdin, None
        return
    try:
        source = path.open(encoding="utf-8-sig", newline="")
    except OSError as error:
        raise typer.BadParameter(f"cannot read {path}: {error.strerror}", param_hint="FILE") from error
    with source:
        yield source, path.stat().st_size


def read_lines(
    lines: Iterable[str], form: Form, schema: Schema, stream: str, time_column: str = "timestamp"
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the events of lines as ``(timestamp ms, row)``.

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
        except (MappingError, ValueError, TypeError) as error:
            wrong.append(f"line {number}: {error.message if isinstance(error, MappingError) else error}")
            if len(wrong) == _TOLD:
                break
            continue
        if not wrong:
            yield made
    if wrong:
        raise MappingError(
            f"{len(wrong)} lines hold no events of stream {stream}: {'; '.join(wrong)}",
            hint="those before the first of them may have been accepted; see --producer",
        )


_Event = Callable[[], tuple[int, tuple[Any, ...]]]


def _json_lines(lines: Iterable[str], schema: Schema, stream: str, time_column: str) -> Iterator[tuple[int, _Event]]:
    from spdist.cluster.rows import from_json_row
    from spdist.transports.feed import checked_row

    def event(line: str) -> tuple[int, tuple[Any, ...]]:
        found = json.loads(line)
        if not isinstance(found, dict):
            raise MappingError(f"it is no JSON object: {line.strip()[:80]}")
        ts = _time(found.get(time_column))
        inner = found.get("event")
        if isinstance(inner, dict) and "event" not in schema.names:
            found = inner
        elif time_column not in schema.names:
            found = {name: value for name, value in found.items() if name != time_column}
        if found.keys() != set(schema.names):
            raise MappingError(f"it has the attributes ({', '.join(found)}), stream {stream} has {schema}")
        return ts, checked_row(schema, ts, from_json_row(schema, [found[name] for name in schema.names]))

    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, lambda line=line: event(line)  # type: ignore[misc]


def _csv_lines(lines: Iterable[str], schema: Schema, time_column: str) -> Iterator[tuple[int, _Event]]:
    from spdist.transports.feed import checked_row

    reader = csv.DictReader(lines, strict=True)

    def event(record: dict[str, Any]) -> tuple[int, tuple[Any, ...]]:
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
    text = str(value).strip()
    if text.lstrip("-").isdecimal():
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise MappingError(f"{text!r} is no time: write ms since 1970 or ISO 8601") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


@connected
def tail(
    client: ClusterClient,
    app: AppName,
    stream: _Stream,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more, until Ctrl-C.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Only what comes from now on.")] = False,
    as_table: Annotated[bool, typer.Option("--table", help="Print tables instead of JSON lines.")] = False,
) -> None:
    """Print the events of a published stream, each once: JSON lines that `spdist feed` takes."""
    from spdist.cluster.client import FOLLOW_S
    from spdist.cluster.rows import to_json_row

    after, ended = "end" if new else "", False
    while follow or not ended:
        page = client.events(app, stream, after, wait_s=FOLLOW_S if follow else 0.0)
        after, ended = page.next or ("" if after == "end" else after), page.ended
        names = page.schema.names
        if as_table and page.events:
            Console().print(table("", ("time", *names), [(_shown(ts), *row) for ts, row in page.events]))
        elif not as_table:
            for ts, row in page.events:
                event = dict(zip(names, to_json_row(row), strict=True))
                typer.echo(json.dumps({"timestamp": ts, "event": event}, ensure_ascii=False))


def _shown(ts: int) -> str:
    try:
        return datetime.fromtimestamp(ts / 1000, UTC).isoformat(" ", "milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(ts)


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
        Console().print(table("", names, rows))


def add_to(app: typer.Typer) -> None:
    """Add these commands."""
    for command in (feed, tail, query):
        app.command(rich_help_panel="A running cluster")(command)
