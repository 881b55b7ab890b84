"""The options of ``@source(type='spark')`` and ``@sink(type='spark')``: which connector, where, and what Spark is told.

An app names only what its node allows: formats of ``spark.formats``, and paths below ``siddhi.files.directories``. All
else is Spark's own: ``option.<name>`` goes to the connector as it is written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spdist.config.allowed import NotAllowed
from spdist.language import ast
from spdist.language.types import Schema, Type
from spdist.transports.options import Options, local_path

__all__ = ["FILES", "SparkConnector", "SparkSinkOptions", "SparkSourceOptions", "check_sink"]

#: Formats that are files in a directory.
FILES = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
#: Formats of tables that are directories: they need a path, too.
_TABLES = ("delta",)
_PREFIX = "option."
#: Spark expands these in paths; what they stand for may lie anywhere.
_GLOB = re.compile(r"[*?\[\]{}]")
#: Options of Spark that name other places.
_PLACES = ("sourcearchivedir", "rowvalidationxsdpath")
#: Options that say what the annotation says already, or what the runtime decides.
_OURS = {
    "path": "write path='…'",
    "paths": "write path='…'",
    "checkpointlocation": "the runtime keeps its own",
    "txnappid": "the runtime numbers its batches itself",
    "txnversion": "the runtime numbers its batches itself",
}
#: Options of a source that say only how much a micro-batch has: another value is no other source.
_PACE = ("max", "min")
#: Of a file source that says nothing, bytes that a micro-batch reads: it is in memory as a whole.
_BATCH_BYTES = str(16 << 20)


@dataclass(frozen=True, slots=True)
class SparkConnector:
    """A connector of Spark and what it is told.

    Parameters
    ----------
    format : str
        As Spark knows it.
    path : Path, optional
        Links followed; None where the format needs none and none is written.
    options : mapping of str to str
        Those of Spark, secrets filled in: shown nowhere.
    identity : str
        What tells this connector from another one, without secrets: 12 characters.
    """

    format: str
    path: Path | None
    options: Mapping[str, str] = field(repr=False)
    identity: str

    @property
    def files(self) -> bool:
        """Whether it reads and writes files in a directory."""
        return self.format in FILES

    @classmethod
    def of(cls, read: Options, annotation: ast.Annotation, known: tuple[str, ...]) -> SparkConnector:
        """Return what an annotation says; raises AppValidationError where that is wrong or not allowed.

        Parameters
        ----------
        read : Options
            Those of the annotation.
        annotation : Annotation
            Where they are written: the names of Spark's options are as they stand there.
        known : tuple of str
            The options that are not Spark's.
        """
        format = _format(read)
        path = _path(read, format)
        _check_names(read, annotation, known)
        written = {
            element.key[len(_PREFIX) :]: element.value
            for element in annotation.elements
            if element.key and element.key.lower().startswith(_PREFIX)
        }
        # Names and values before secrets are filled in: the identity names a directory.
        told = {name: value for name, value in written.items() if not name.lower().startswith(_PACE)}
        # With a path other options name no other source, a separator for example; without, they are the place.
        place = [format, None if path is None else str(path), {} if path is not None else told]
        identity = hashlib.sha256(json.dumps(place, sort_keys=True).encode()).hexdigest()[:12]
        return cls(format, path, {name: _value(read, name, value) for name, value in written.items()}, identity)


@dataclass(frozen=True, slots=True)
class SparkSourceOptions:
    """What ``@source(type='spark')`` says.

    Parameters
    ----------
    connector : SparkConnector
        What is read.
    time : str
        The column that says when an event was; empty where that is when it arrives.
    interval_ms : int
        How often the source is asked for more, ms.
    """

    connector: SparkConnector
    time: str
    interval_ms: int

    @classmethod
    def of(cls, read: Options, annotation: ast.Annotation) -> SparkSourceOptions:
        """Return what an annotation says; raises AppValidationError."""
        known = ("type", "format", "path", "time", "polling.interval", "on.error")
        connector = SparkConnector.of(read, annotation, known)
        names = {name.lower() for name in connector.options}
        if connector.files and not any(name.startswith(_PACE) for name in names):
            # With the identity of before: what this default is must not make it another source.
            options = {**connector.options, "maxBytesPerTrigger": _BATCH_BYTES}
            connector = SparkConnector(connector.format, connector.path, options, connector.identity)
        return cls(connector, read.text("time"), read.whole("polling.interval", 500, 1))


@dataclass(frozen=True, slots=True)
class SparkSinkOptions:
    """What ``@sink(type='spark')`` says.

    Parameters
    ----------
    connector : SparkConnector
        What is written.
    mode : str
        ``append``, or ``overwrite`` where each batch replaces what was there.
    id, time : str
        Columns for the ids and the timestamps of events; empty for none.
    partitions : tuple of str
        Columns by whose values files lie in directories.
    """

    connector: SparkConnector
    mode: str
    id: str
    time: str
    partitions: tuple[str, ...] = ()

    @classmethod
    def of(cls, read: Options, annotation: ast.Annotation, schema: Schema) -> SparkSinkOptions:
        """Return what an annotation says; raises AppValidationError.

        Parameters
        ----------
        read, annotation
            The annotation and its options.
        schema : Schema
            The attributes of the stream.
        """
        known = ("type", "format", "path", "mode", "id", "time", "partition.by", "on.error")
        connector = SparkConnector.of(read, annotation, known)
        if annotation.nested("distribution"):
            raise read.wrong("type", "cannot be 'spark' with a @distribution", "write several sinks")
        if objects := [name for name, kind in schema if kind is Type.OBJECT]:
            hint = f"Select json:toString({objects[0]}), or another text, into the stream."
            raise read.wrong("type", f"is 'spark', which has no column for the object '{objects[0]}'", hint)
        added = read.text("id"), read.text("time")
        taken = {name.lower() for name in schema.names}
        for key, name in zip(("id", "time"), added, strict=True):
            # Spark compares names of columns without case.
            if name.lower() in taken:
                raise read.wrong(key, f"names the column '{name}', which there is already", "choose another name")
            taken |= {name.lower()} if name else set()
        by = tuple(name.strip() for name in read.text("partition.by").split(",") if name.strip())
        if strangers := [name for name in by if name.lower() not in taken]:
            hint = f"The columns are {', '.join((*schema.names, *filter(None, added)))}."
            raise read.wrong("partition.by", f"names the column '{strangers[0]}', which there is not", hint)
        return cls(connector, read.choice("mode", "append", ("append", "overwrite")), *added, by)


def _format(read: Options) -> str:
    format = read.needed("format", "parquet").strip()
    for known in read.allowed.formats:
        if known.lower() == format.lower():
            return known
    formats = ", ".join(read.allowed.formats) or "none"
    hint = f"It is one of {formats}. More are allowed in deployment.yaml: spark: {{formats: [{formats}, {format}]}}"
    raise read.wrong("format", f"cannot be '{format}' on this node", hint)


def _path(read: Options, format: str) -> Path | None:
    if not read.text("path"):
        if format in (*FILES, *_TABLES):
            raise read.wrong("path", "is missing", "For example: path='events'")
        return None
    return _plain(read, "path", read.path("path"))


def _plain(read: Options, key: str, path: Path) -> Path:
    if _GLOB.search(str(path)):
        hint = (
            "Name the directory; option.pathGlobFilter chooses among its files, option.recursiveFileLookup goes deeper."
        )
        raise read.wrong(key, f"is one directory or file, without * ? [ ] {{ }}: '{path}'", hint)
    return path


def _check_names(read: Options, annotation: ast.Annotation, known: tuple[str, ...]) -> None:
    for name in read.values:
        if name.startswith(_PREFIX):
            if (why := _OURS.get(name.removeprefix(_PREFIX))) is not None:
                raise read.wrong(name, "cannot be written", why)
            # With a dot it is a setting of Hadoop, which may name classes and other file systems.
            if "." in name.removeprefix(_PREFIX) and read.text("format").strip().lower() in FILES:
                raise read.wrong(name, "cannot be written", "settings of Hadoop belong to the node")
        elif name not in known:
            raise read.wrong(name, "is not known", f"Options of Spark begin with {_PREFIX}: {_PREFIX}{name}='…'")
    mapping = next(iter(annotation.nested("map")), None)
    if mapping is not None and (mapping.get("type") != "passThrough" or mapping.annotations):
        hint = "leave @map out, or write @map(type='passThrough')"
        raise read.wrong("type", "is 'spark': rows have columns already, and no mapping", hint)


def _value(read: Options, name: str, value: str) -> str:
    key = f"{_PREFIX}{name}".lower()
    if name.lower() not in _PLACES:
        return read.expanded(key, value)
    try:
        return str(_plain(read, key, local_path(value, read.allowed)))
    except NotAllowed as error:
        raise read.wrong(key, f"{error}: '{value}'", error.hint) from None


def check_sink(read: Options, annotation: ast.Annotation, schema: Schema) -> None:
    """Raise AppValidationError where a sink says what cannot be, or may not."""
    SparkSinkOptions.of(read, annotation, schema)
