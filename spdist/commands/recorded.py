"""``spdist run --input``: an app on recorded events, from files to files, in virtual time and without Spark."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console

from spdist.commands.connection import output, shown_time, table
from spdist.commands.explained import explained, read_text
from spdist.commands.options import with_options

if TYPE_CHECKING:
    from spdist.frames import StreamEvents, TimeUnit

__all__ = ["or_recorded"]


class Unit(StrEnum):
    """The unit of times that are numbers."""

    S = "s"
    MS = "ms"
    US = "us"
    NS = "ns"


_FORMS = "Parquet, CSV, Arrow or JSON lines, by its suffix"
_OPTIONS: dict[str, tuple[Any, Any]] = {
    "inputs": (
        Annotated[
            list[str] | None,
            typer.Option(
                "--input", metavar="STREAM=FILE", help=f"Recorded events: {_FORMS}. In virtual time; repeatable."
            ),
        ],
        None,
    ),
    "outputs": (
        Annotated[
            list[str] | None,
            typer.Option("--output", metavar="STREAM=FILE", help=f"Where a stream goes: {_FORMS}; repeatable."),
        ],
        None,
    ),
    "times": (
        Annotated[
            list[str] | None,
            typer.Option(
                "--time", metavar="[STREAM=]COLUMN", help="The column with the times; else timestamp, ts or time."
            ),
        ],
        None,
    ),
    "unit": (Annotated[Unit | None, typer.Option("--time-unit", help="Of times that are numbers; else ms.")], None),
    "until": (
        Annotated[str | None, typer.Option(help="When to stop: ISO 8601, or ms since 1970; else with the last event.")],
        None,
    ),
}


def or_recorded(live: Callable[..., None]) -> Callable[..., None]:
    """Return a command that runs an app on recorded events where there is an ``--input``, else as `live` does."""
    parameters = inspect.signature(live).parameters

    def call(own: dict[str, Any], recorded: dict[str, Any]) -> None:
        file = own["file"]
        if not recorded["inputs"]:
            if said := [name for name, value in recorded.items() if value]:
                raise typer.BadParameter("it goes with --input, for recorded events", param_hint=_option(said[0]))
            live(**own)
            return
        # Options that were not given have their defaults.
        for name, value in own.items():
            if name != "file" and value != parameters[name].default:
                raise typer.BadParameter("it is for a live run, without --input", param_hint=_option(name))
        _run(file, **recorded)

    return with_options(live, _OPTIONS, call)


def _option(name: str) -> str:
    known = {"inputs": "--input", "outputs": "--output", "times": "--time", "unit": "--time-unit"}
    return known.get(name, f"--{name.replace('_', '-')}")


def _run(
    file: Path,
    inputs: list[str],
    outputs: list[str] | None,
    times: list[str] | None,
    unit: Unit | None,
    until: str | None,
) -> None:
    from spdist.engine.local.recorded import written_streams
    from spdist.facade import check
    from spdist.frames import check_suffix, read_streams, write_file, written_instant
    from spdist.language.checking.scope import undefined
    from spdist.result import run_recorded

    sources = _pairs(inputs, "--input")
    targets = {stream: Path(path) for stream, path in _pairs(outputs or [], "--output").items()}
    said = cast("TimeUnit | None", unit and unit.value)
    text = read_text(file)
    with explained(), _progress() as tell:
        checked = check(text)
        end = None if until is None else written_instant(until)
        # A slip is told before the run, not after it.
        for stream, path in targets.items():
            if stream not in (written := written_streams(checked)):
                raise undefined("output stream", stream, None, written)
            check_suffix(path)
        tell("reading")
        events = read_streams(sources, checked.streams, _columns(times, sources), said)
        total = sum(map(len, events.values()))
        tell(f"running: 0 of {total:,} events")
        result = run_recorded(checked, events, end, lambda sent: tell(f"running: {sent:,} of {total:,} events"))
        tell("writing")
        for stream, path in targets.items():
            write_file(result[stream].to_arrow(), path)
    rows = [_summary(stream, "in", one, sources[stream]) for stream, one in events.items()]
    rows += [_summary(stream, "out", one, targets.get(stream, "")) for stream, one in result.items()]
    output().print(table("", ("stream", "", "events", "first (UTC)", "last (UTC)", "file"), rows))
    if result.problem:
        Console(stderr=True).print(result.problem, style="yellow", markup=False, highlight=False, soft_wrap=True)


def _summary(stream: str, way: str, events: StreamEvents, file: object) -> tuple[object, ...]:
    first, last = (shown_time(events.times[0]), shown_time(events.times[-1])) if events else ("", "")
    return stream, way, f"{len(events):,}", first, last, file


def _pairs(texts: list[str], option: str) -> dict[str, str]:
    """Return the file of each stream."""
    found: dict[str, str] = {}
    for text in texts:
        stream, _, file = text.partition("=")
        if not (stream and file):
            said = f"'{text}' is not STREAM=FILE; for example: Trades=trades.parquet"
            raise typer.BadParameter(said, param_hint=option)
        if stream in found:
            raise typer.BadParameter(f"stream '{stream}' has two files", param_hint=option)
        found[stream] = file
    return found


def _columns(times: list[str] | None, streams: Iterable[str]) -> dict[str, str]:
    """Return the column with the times by stream: said for all, or for one."""
    found: dict[str, str] = {}
    for one in times or ():
        stream, equals, column = one.rpartition("=")
        # In either order, what is said for one stream wins over what is said for all.
        found |= {stream: column} if equals else {name: column for name in streams if name not in found}
    return found


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show on a terminal what is done."""
    with Console(stderr=True).status("checking", spinner="line") as line:
        yield line.update
