"""What is to be done with frames, as a value: which columns are which attributes, how rows are split, what comes out.

All that can be wrong is found here, before Spark runs anything.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyspark.sql.types import StructType

from spdist.engine.frames.fitting import FrameInput, FrameRequest, frame_input, misfits
from spdist.engine.frames.spark_types import spark_type
from spdist.errors import ErrorKind, MappingError, PlanningError, SiddhiAppError
from spdist.extension import Extension, extensions_of
from spdist.frames.times import instant
from spdist.language import ast
from spdist.language.checking.checked import CheckedApp
from spdist.language.checking.scope import undefined
from spdist.language.types import Schema
from spdist.planning.sharding import Sharding, sharding

__all__ = ["FramePlan", "fed_streams", "frames_by_stream", "plan_frames"]

_T = TypeVar("_T")
#: Columns of a frame with several outputs.
_STREAM = "stream"


@dataclass(frozen=True, slots=True)
class FramePlan:
    """What tasks need to know of a transformation; values only.

    Parameters
    ----------
    name : str
        Of the transformation: by default the app's.
    text : str
        The app.
    scripts : bool, optional
        Whether it may define functions in Python.
    extensions : tuple of Extension
        The user's own functions and windows that it uses.
    inputs : tuple of FrameInput
        In the order in which events of one time go.
    outputs : tuple of (str, Schema)
        The streams that are wanted.
    together : bool
        Whether each of those is a column of its own, since there are several.
    shards : int
        Into how many parts the rows are split.
    why_one : str
        Why there is one shard, where more would have been made; empty else.
    event_time, event_id : str
        The columns that say when a row of the result was put out, and which one it is.
    until : int, optional
        The time at which the app stops, ms.
    token : str
        Tells this plan from all others, those of the same app included.
    """

    name: str
    text: str
    scripts: bool | None
    extensions: tuple[Extension, ...]
    inputs: tuple[FrameInput, ...]
    outputs: tuple[tuple[str, Schema], ...]
    together: bool
    shards: int
    why_one: str
    event_time: str
    event_id: str
    until: int | None
    token: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False)

    def result(self) -> StructType:
        """Return the columns of the result."""
        made = StructType()
        if self.together:
            made.add(_STREAM, "string", False).add(self.event_time, "timestamp", False)
            made.add(self.event_id, "string", False)
            for name, schema in self.outputs:
                made.add(name, _columns_of(schema))
            return made
        ((_, schema),) = self.outputs
        for column in _columns_of(schema):
            made.add(column)
        return made.add(self.event_time, "timestamp", False).add(self.event_id, "string", False)


def _columns_of(schema: Schema) -> StructType:
    made = StructType()
    for name, kind in schema:
        made.add(name, spark_type(kind))
    return made


def fed_streams(checked: CheckedApp) -> tuple[str, ...]:
    """Return the defined streams that no query of an app writes."""
    written = _written(checked)
    defined = (one.name for one in checked.app.definitions if isinstance(one, ast.StreamDefinition))
    return tuple(name for name in defined if name not in written)


def frames_by_stream(frames: _T | Mapping[str, _T], stream: str | None, checked: CheckedApp) -> dict[str, _T]:
    """Return the frame of each stream; a single one belongs to `stream`, or to the only one that nobody writes.

    Raises
    ------
    UndefinedNameError
        The app has no such stream.
    MappingError
        It is not said which stream a frame is.
    """
    if isinstance(frames, Mapping):
        if stream is not None or not frames:
            raise MappingError(
                "several frames are given by stream, at least one, and then without 'stream'",
                hint=f'transform({{"{(fed_streams(checked) or ("Stream",))[0]}": frame}}, …)',
            )
        found = dict(frames)
    else:
        found = {_only(fed_streams(checked), stream, "stream", "bring events from outside"): frames}
    for name in found:
        if name not in checked.streams:
            raise undefined("stream", name, None, checked.streams)
    return found


def plan_frames(
    checked: CheckedApp,
    text: str,
    frames: Mapping[str, StructType],
    request: FrameRequest,
    shards: Callable[[], int],
) -> FramePlan:
    """Return what is to be done.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    text : str
        Its text.
    frames : mapping of str to StructType
        The columns of the frame of each stream.
    request : FrameRequest
        What is asked for.
    shards : callable
        How many shards there are where the app can be split and nobody says how many; called only then.

    Raises
    ------
    MappingError
        Columns do not fit; names each, both types, and the cast to write.
    PlanningError
        The app cannot be split as is asked, or cannot run here; says why.
    UndefinedNameError
        The app has no such stream.
    """
    _check_stores(checked, text)
    split = sharding(checked, frames)
    keys = _keys(split, checked, frames, request.key)
    inputs = tuple(frame_input(name, checked.streams[name], frames[name], keys[name], request) for name in frames)
    wrong = [error for one in inputs for error in misfits(one, frames[one.stream])]
    if wrong:
        raise MappingError(
            "; ".join(message for message, _ in wrong), hint="\n".join(cast for _, cast in wrong if cast)
        )
    outputs = _outputs(checked, request.output)
    count = _count(split, checked.name, request.shards, shards)
    plan = FramePlan(
        name=request.name or checked.name,
        text=text,
        scripts=request.scripts,
        extensions=extensions_of(node.id for node in checked.app.walk() if isinstance(node, ast.FunctionCall)),
        inputs=inputs,
        outputs=tuple((name, checked.streams[name]) for name in outputs),
        together=len(outputs) > 1,
        shards=count,
        why_one=split.reasons[0] if split.reasons and request.shards is None else "",
        event_time=request.event_time,
        event_id=request.event_id,
        until=None if request.until is None else instant(request.until),
    )
    _check_names(plan)
    return plan


def _check_stores(checked: CheckedApp, text: str) -> None:
    for definition in checked.app.definitions:
        for store in ast.find_annotations(definition.annotations, "Store"):
            raise SiddhiAppError(
                f"'{getattr(definition, 'name', '')}' is kept in a database, which Spark's tasks would change as often "
                "as they are repeated",
                span=store.span,
                hint="leave out @Store, or read the database as a frame of its own",
                text=text,
                code=ErrorKind.UNSUPPORTED,
            )


def _only(known: Sequence[str], asked: str | None, argument: str, what: str) -> str:
    if asked is not None:
        return asked
    if len(known) != 1:
        listed = ", ".join(map(repr, known)) or "none"
        raise MappingError(f"'{argument}' must be given: {len(known)} streams {what}: {listed}")
    return known[0]


def _written(checked: CheckedApp) -> dict[str, None]:
    inside = (query for partition in checked.partitions for query in partition.queries)
    targets = (query.target for query in (*checked.queries, *inside))
    return dict.fromkeys(target for target in targets if target in checked.streams)


def _outputs(checked: CheckedApp, asked: str | Sequence[str] | None) -> tuple[str, ...]:
    written = _written(checked)
    if asked is None or isinstance(asked, str):
        wanted: tuple[str, ...] = (_only(tuple(written), asked, "output", "are written by queries"),)
    else:
        wanted = tuple(dict.fromkeys(asked))
    known = [*written, *(name for name in checked.streams if name.startswith("!"))]
    for name in wanted:
        if name not in known:
            raise undefined("stream that a query writes", name, None, known)
    if not wanted:
        raise MappingError("'output' names no stream", hint=f"for example output={known[0]!r}" if known else None)
    return wanted


# --------------------------------------------------------------------------------------------------------- how to split
def _keys(
    split: Sharding, checked: CheckedApp, frames: Mapping[str, Any], asked: str | Mapping[str, str] | None
) -> dict[str, str | None]:
    """Return by which attribute each frame is split; what the user says must split the app."""
    made = {stream: split.keys.get(stream) for stream in frames}
    for stream in frames if asked is not None else ():
        key = asked if isinstance(asked, str) else (asked or {}).get(stream)
        if key is None:
            continue
        if checked.streams[stream].index(key) is None:
            raise undefined("attribute", key, None, checked.streams[stream].names)
        if split.reasons or made[stream] not in (None, key):
            because = "; ".join(split.reasons) or f"its partitions need '{made[stream]}'"
            part = f"partition with ({key} of {stream}) begin … end"
            raise PlanningError(
                f"the app '{checked.name}' cannot be split by '{key}' of '{stream}': {because}",
                hint=f"put what keeps events inside '{part}', or leave out 'key'",
            )
        made[stream] = key
    return made


def _count(split: Sharding, app: str, asked: int | None, default: Callable[[], int]) -> int:
    if asked is None:
        return default() if split.possible else 1
    if asked < 1:
        raise PlanningError(f"there are at least 1 shards, not {asked}")
    if asked > 1 and split.reasons:
        part = "partition with (attribute of Stream) begin … end"
        raise PlanningError(
            f"the app '{app}' cannot be split into {asked} shards: {'; '.join(split.reasons)}",
            hint=f"put what keeps events inside '{part}', or leave out 'shards'",
        )
    return asked


def _check_names(plan: FramePlan) -> None:
    names = [name.lower() for name in plan.result().names]  # Spark does not tell columns apart by case
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise MappingError(
            f"the result would have the column {twice[0]!r} twice",
            hint=f"name ours in another way: event_time={plan.event_time + '_'!r}, event_id={plan.event_id + '_'!r}",
        )
