"""What a notebook does with an app before there is a cluster, and how it finds one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from spdist.errors import EventsLostWarning, SiddhiAppError, SiddhiTypeError, UnauthorizedError
from spdist.language.ast import SiddhiApp
from spdist.language.checking.checked import CheckedApp

if TYPE_CHECKING:
    from spdist.cluster.clients.client import ClusterClient
    from spdist.cluster.clients.client_async import AsyncClusterClient
    from spdist.cluster.security.stored_login import Credential
    from spdist.engine.frames.transforming import SparkFrame
    from spdist.frames import TimeUnit
    from spdist.planning.execution import Explanation
    from spdist.planning.pictures.graph import AppGraph
    from spdist.planning.topology import Topology
    from spdist.result import Result
    from spdist.transports.sockets.tls import CertificateFiles

__all__ = [
    "check",
    "connect",
    "connect_async",
    "explain",
    "graph",
    "output_of",
    "parse",
    "plan",
    "run",
    "siddhi",
    "transform",
]


class FrameOptions(TypedDict, total=False):
    """The arguments of `transform` and `siddhi` that are given by name; see there."""

    time: str | Mapping[str, str]
    key: str | Mapping[str, str]
    shards: int
    order: str | Sequence[str] | Mapping[str, str | Sequence[str]]
    time_unit: TimeUnit
    until: int | str | datetime
    checkpoint: str | os.PathLike[str]
    name: str
    event_time: str
    event_id: str
    scripts: bool


def parse(text: str) -> SiddhiApp:
    """Return the syntax tree of an app.

    Raises
    ------
    SiddhiSyntaxError
        The text does not follow the grammar; shows where.
    SiddhiTypeError
        It is no text.
    """
    from spdist.language.parsing.parser import parse as parse_text

    if not isinstance(text, str):
        raise SiddhiTypeError(
            f"an app is its text, or what spdist.parse made of it, not a {type(text).__name__}: {str(text)[:100]}",
            hint="read a file with Path('app.siddhi').read_text()",
        )
    return parse_text(text)


def check(app: str | SiddhiApp, *, scripts: bool | None = None) -> CheckedApp:
    """Return an app with the types of all its streams.

    Parameters
    ----------
    app : str or SiddhiApp
        SiddhiQL, or what `parse` made of it; errors show their lines where the text is given.
    scripts : bool, optional
        Whether the app may define functions in Python; by default what `spdist.extension.allow_scripts` said, else not.

    Raises
    ------
    SiddhiAppError
        The app is wrong; ``errors`` holds everything that was found.
    """
    from spdist.extension import catalog
    from spdist.language.checking.checker import check as check_tree

    known = catalog(scripts)
    checked = check_tree(app, known) if isinstance(app, SiddhiApp) else check_tree(parse(app), known, app)
    # Given to it here: the language may not depend on what draws apps.
    return replace(checked, picture=_picture)


def _picture(checked: CheckedApp) -> str:
    from spdist.planning.pictures.graph import app_graph

    return app_graph(checked)._repr_html_()


def graph(app: str | SiddhiApp) -> AppGraph:
    """Return which queries of an app read and write which streams and tables; draws itself in a notebook.

    Raises
    ------
    SiddhiAppError
        The app is wrong.
    """
    from spdist.planning.pictures.graph import app_graph

    return app_graph(check(app, scripts=True))  # nothing is run here


def explain(app: str | SiddhiApp) -> Explanation:
    """Return how an app runs on Spark, query by query: native or by the engine and why, its state, how it is split.

    Parameters
    ----------
    app : str or SiddhiApp
        SiddhiQL, or what `parse` made of it; lines are named where the text is given.

    Raises
    ------
    SiddhiAppError
        The app is wrong.
    """
    from spdist.extension import catalog
    from spdist.planning.execution import explanation
    from spdist.program.obstacle import compiled_or_why_not

    checked, text = check(app, scripts=True), app if isinstance(app, str) else None  # nothing is run here
    with _shown_in(app):
        found = explanation(checked, catalog(scripts=True), text)
    return found if found.hosted == "columns" else replace(found, compiled=compiled_or_why_not(checked, text))


def plan(app: str | SiddhiApp, transport: str = "log") -> Topology:
    """Return the execution groups that an app is split into, and the topics between them; draws itself in a notebook.

    Parameters
    ----------
    app : str or SiddhiApp
        The app.
    transport : str
        What carries the topics, and so names them: ``log``, ``kafka`` or ``nats``.

    Raises
    ------
    PlanningError
        The app cannot be split as its ``@dist`` annotations ask; names the query and the group, and its class says
        which rule that breaks.
    SiddhiAppError
        The app is wrong.
    """
    from spdist.planning.groups import plan as plan_tree

    checked = check(app, scripts=True)  # nothing is run here
    with _shown_in(app):
        return plan_tree(checked.app, checked, transport)


@contextmanager
def _shown_in(app: str | SiddhiApp) -> Iterator[None]:
    """Have errors of planning, which has the tree alone, show their lines of the text."""
    try:
        yield
    except SiddhiAppError as error:
        if isinstance(app, str):
            error.show_in(app)
        raise


def run(
    app: str | SiddhiApp,
    events: Mapping[str, Any],
    until: int | str | datetime | None = None,
    *,
    time: str | Mapping[str, str] | None = None,
    time_unit: TimeUnit | None = None,
    scripts: bool | None = None,
    progress: bool | None = None,
) -> Result:
    """Run an app on recorded events in virtual time: here, immediately, without Spark and without waiting.

    Parameters
    ----------
    app : str or SiddhiApp
        The app.
    events : mapping of str to events
        What is sent to each stream, in any of these forms; columns that are no attributes of the stream are left out.

        - a data frame of pandas or polars, a table, batch or reader of batches of Arrow;
        - the path of a file: ``.parquet``, ``.csv``, ``.arrow``, ``.feather`` or ``.jsonl``;
        - columns by name: ``{"ts": [...], "v": [...]}``;
        - rows: dictionaries with a time, or pairs ``(time, row)``, where a row is the values in the order of the
          attributes, or by their names.

        All streams are merged by time; events of one time keep the order in which they are given.
    until : int or str or datetime, optional
        The time at which to stop, as ms since epoch, ISO 8601 text or datetime; by default that of the last event.
    time : str or mapping of str to str, optional
        The column with the times, for all streams or by stream; by default ``timestamp``, ``ts`` or ``time``, or an
        index of datetimes. It holds datetimes or ISO 8601 texts (UTC where they have no zone), or numbers since 1970.
    time_unit : {'s', 'ms', 'us', 'ns'}, optional
        Of times that are numbers; by default ms. Numbers that can hardly be ms are an error, not times in 1970.
    scripts : bool, optional
        Whether the app may define functions in Python, which may do whatever this process may; by default what
        `spdist.extension.allow_scripts` said, else not.
    progress : bool, optional
        Whether a bar says how far it is, where that takes more than a second; by default in notebooks and in terminals
        (standard error), with True also elsewhere, as a line every 10 s.

    Returns
    -------
    Result
        By stream that queries write, its events in the order in which they came: exactly those that a cluster publishes
        for an ``@app:playback`` app. ``result["Out"]`` is a sequence of ``(timestamp ms, row)`` and has `to_pandas`,
        `to_arrow`, `to_polars` and `to_parquet`; ``result.lost`` counts events that a query failed on.

    Raises
    ------
    SiddhiAppError
        The app is wrong, or uses what is not built yet.
    UndefinedNameError
        The app has no such stream.
    MappingError
        An event does not fit its stream; names the row and the column. Nothing was run.

    Warns
    -----
    EventsLostWarning
        Events were lost because a query failed on them, or lay too far ahead; says how many, and why.

    Examples
    --------
    >>> app = "define stream S (v int); from S[v > 1] select v * 10 as w insert into Out;"
    >>> run(app, {"S": {"day": ["2023-11-14", "2023-11-15"], "v": [1, 2]}}, time="day")["Out"]
    [(1700006400000, (20,))]
    """
    from spdist.frames import instant, read_streams
    from spdist.progress import ProgressBar
    from spdist.result import run_recorded

    checked = check(app, scripts=scripts)
    given = read_streams(events, checked.streams, time, time_unit)
    end = None if until is None else instant(until)
    with ProgressBar(sum(map(len, given.values())), "events", progress) as bar:
        result = run_recorded(checked, given, end, bar.show)
    if result.problem:
        warnings.warn(result.problem, EventsLostWarning, stacklevel=2)
    return result


def transform(
    frame: SparkFrame | Mapping[str, SparkFrame],
    app: str | SiddhiApp,
    stream: str | None = None,
    output: str | Sequence[str] | None = None,
    **options: Unpack[FrameOptions],
) -> SparkFrame:
    """Return what an app puts out for the rows of Spark DataFrames, as a DataFrame: batch for batch, stream for stream.

    The rows are the events, in the order of their times, and the app runs in virtual time as in `run`: its clock is the
    latest time of all rows so far. Spark does the work when the result is used, in the session of `frame`.

    Parameters
    ----------
    frame : DataFrame or mapping of str to DataFrame
        Has a column for each attribute of the stream, by name and of its type; others are left out. For several streams
        a frame each, by stream; rows of one time go in this order of the streams.
    app : str or SiddhiApp
        The app. ``@dist`` is not looked at, and sources and sinks are not connected, but for in-memory ones and logs.
    stream : str, optional
        Which stream a single frame is; by default the only one that no query writes.
    output : str or sequence of str, optional
        The streams that are wanted; by default the only one that queries write.
    time : str or mapping of str to str, optional
        The column with the time of a row, the same in all frames or by stream; by default ``timestamp``, ``ts``,
        ``time`` or ``event_time``. It holds timestamps or dates, as Spark's session understands them, or whole numbers
        since 1970. The app sees ms; of rows within one ms the earlier goes first.
    key : str or mapping of str to str, optional
        The attribute by whose value rows are split over tasks. By default what the app's partitions say; anything else
        is an error that says why.
    shards : int, optional
        Into how many parts rows are split. By default, where the app can be split: four times the number of cores for a
        batch, that number for a stream, ``spark.sql.shuffle.partitions`` at most. An app that cannot be split runs in
        one task; the log says why. A stream keeps the number that it began with.
    order : str, sequence of str, or mapping of str to those, optional
        Columns that order rows of one time, by stream where they differ. Without them those go by the values of their
        attributes, as frames of Spark have no order.
    time_unit : {'s', 'ms', 'us', 'ns'}, optional
        Of times that are numbers; by default ms.
    until : int or str or datetime, optional
        Of a batch: the time at which to stop, as ms since epoch, ISO 8601 text or datetime; by default that of the last
        row.
    checkpoint : str or path
        Of a stream, which needs one: the ``checkpointLocation`` of its query, a directory that all executors see. State
        is in its subdirectory ``spdist``.
    name : str, optional
        Tells several transformations in one query apart; by default the name of the app.
    event_time, event_id : str, optional
        Names of the columns that say when a row was put out, and which one it is.
    scripts : bool, optional
        Whether the app may define functions in Python; by default what `spdist.extension.allow_scripts` said, else not.

    Returns
    -------
    DataFrame
        A column for each attribute of the output, an object that is no text being its JSON; ``event_time`` (timestamp),
        and ``event_id`` (string), which a repetition gives again. Of several outputs: ``stream``, ``event_time``,
        ``event_id``, and for each output a struct of its attributes; `output_of` returns one of them.

    Raises
    ------
    MappingError
        A column is missing or of another type, says which and what to write; or an argument does not fit.
    PlanningError
        The app cannot be split as `key` or `shards` say.
    EngineError
        A stream has no checkpoint.
    StateError
        The checkpoint has the state of another app, or of another number of shards.
    SiddhiAppError
        The app is wrong.

    Notes
    -----
    State of a batch: what the app keeps, in one task for each shard; rows pass through as a stream. State of a stream:
    a snapshot and the log of inputs since then, for each shard; tasks hold the rows of one micro-batch of a shard. A
    micro-batch that Spark repeats gives the same rows with the same ids. A row that is older than the clock when its
    micro-batch comes is late: the app gets it with the clock where it is, as in Siddhi's playback; without late rows
    the result does not depend on micro-batches. A micro-batch without rows changes nothing.

    Order: rows of one key come in the order in which they were put out, as long as Spark keeps them in their partition.

    Executors need spdist. Functions and windows that were registered with `spdist.function` and its like go with the
    app.

    Examples
    --------
    ``alerts = spdist.transform(trades, app, stream="Trades", output="Alerts", time="ts")``
    """
    from spdist.engine.frames.fitting import FrameRequest
    from spdist.engine.frames.transforming import transform_frames
    from spdist.language.format import format_app

    # `Unpack` is nothing at run time, and `FrameRequest` would refuse a wrong name as an argument of its own.
    unknown = options.keys() - FrameOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"transform() has no argument {', '.join(map(repr, sorted(unknown)))}")
    checked = check(app, scripts=options.get("scripts"))
    text = app if isinstance(app, str) else format_app(app)
    return transform_frames(frame, checked, text, FrameRequest(output=output, **options), stream)


def siddhi(
    app: str | SiddhiApp,
    stream: str | None = None,
    output: str | Sequence[str] | None = None,
    **options: Unpack[FrameOptions],
) -> Callable[[SparkFrame], SparkFrame]:
    """Return `transform` as a step for ``DataFrame.transform``; the arguments are the same.

    Examples
    --------
    ``trades.transform(spdist.siddhi(app, output="Alerts", time="ts")).where("price > 10")``
    """

    def step(frame: SparkFrame) -> SparkFrame:
        return transform(frame, app, stream, output, **options)

    return step


def output_of(frame: SparkFrame, stream: str) -> SparkFrame:
    """Return the events of one stream out of what `transform` returned for several outputs.

    Each action on it runs the app again; ``frame.persist()`` before keeps what came out for all of them. A query writes
    one frame: of a stream, select in ``foreachBatch``, or write all outputs to one table.

    Parameters
    ----------
    frame : DataFrame
        The result for several outputs.
    stream : str
        One of them.

    Returns
    -------
    DataFrame
        Its attributes, then ``event_time`` and ``event_id``.

    Raises
    ------
    MappingError
        The frame has no such stream.
    """
    from spdist.engine.frames.transforming import output_of as select

    return select(frame, stream)


def connect(
    managers: str | Sequence[str],
    username: str = "admin",
    password: str | None = None,
    *,
    trust_file: Path | None = None,
    certificate: CertificateFiles | None = None,
    token: str | Callable[[], str] | None = None,
) -> ClusterClient:
    """Return a client of a running cluster.

    Parameters
    ----------
    managers : str or sequence of str
        Base URLs of one or more managers; the one that leads is found from any of them.
    username : str
        A user of ``auth.configs``.
    password : str, optional
        By default the environment variable ``SPDIST_PASSWORD``, so that no notebook needs to hold it; then the variable
        ``SPDIST_TOKEN``, then what ``spdist login`` has stored.
    trust_file : Path, optional
        PEM file with the authorities to trust for https.
    certificate : path or pair of paths, optional
        For nodes that ask for one (``sslVerifyClient``): a PEM file with its key, or certificate and key. See
        ``python -m spdist tls add --user``.
    token : str or callable, optional
        A token of the cluster's identity provider in place of name and password, or what returns one for each request.

    Raises
    ------
    UnauthorizedError
        There is no password, and no token.
    """
    from spdist.cluster.clients.client import ClusterClient

    urls = [managers] if isinstance(managers, str) else managers
    shown = _credential(urls, username, password, token)
    return ClusterClient(
        urls, shown.username, shown.password, trust_file=trust_file, certificate=certificate, bearer=shown.bearer
    )


def connect_async(
    managers: str | Sequence[str],
    username: str = "admin",
    password: str | None = None,
    *,
    trust_file: Path | None = None,
    certificate: CertificateFiles | None = None,
    token: str | Callable[[], str] | None = None,
) -> AsyncClusterClient:
    """Return a client of a running cluster for ``await``; the rest as in `connect`.

    Raises
    ------
    UnauthorizedError
        There is no password, and no token.
    """
    from spdist.cluster.clients.client_async import AsyncClusterClient

    urls = [managers] if isinstance(managers, str) else managers
    shown = _credential(urls, username, password, token)
    return AsyncClusterClient(
        urls, shown.username, shown.password, trust_file=trust_file, certificate=certificate, bearer=shown.bearer
    )


def _credential(
    managers: Sequence[str], username: str, password: str | None, token: str | Callable[[], str] | None
) -> Credential:
    from spdist.cluster.security.stored_login import Credential, credential

    if token is not None:
        return Credential("the user of a token", bearer=token if callable(token) else lambda: token)
    found = credential(managers, username, password)
    if found is None:
        raise UnauthorizedError(
            f"connecting as {username} needs a password",
            hint="set the environment variable SPDIST_PASSWORD; or, with an identity provider, run `spdist login`",
        )
    return found
