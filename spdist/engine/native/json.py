"""Siddhi's JSON payloads as Spark Columns: what `spdist.mapping.json_payloads` reads and writes, in its default form.

Spark's own reader is kinder than Siddhi: it takes what follows a value for nothing, texts for numbers and whole numbers
for fractions. So a payload is first checked as a whole, then its keys, then what kind of value each is.

Notes
-----
Other than the mapper: a number of more than 1,000 characters is refused; one beyond the range of doubles is; of an
object that names ``event`` twice nothing is read; and a payload may nest 1,000 levels, Spark's own bound.

Source: io.siddhi.extension.map.json, described in our own words.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spdist.engine.native.values import SPARK_TYPES, converted, is_true, let
from spdist.language.types import Schema, Type
from spdist.mapping.bounds import MAX_BYTES
from spdist.planning.columns.realtime import JsonForm

__all__ = ["field", "read_json", "write_json"]

_STRICT = {"mode": "PERMISSIVE", "allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
_EVENT = "event"
_MAP = "map<string,string>"


def field(position: int) -> str:
    """Return the name of an attribute in the struct of an event: its own may be anything."""
    return f"a{position}"


def _struct(schema: Schema, kind: Callable[[Type], str | None]) -> str:
    """Return the DDL of a struct with the attributes for which `kind` names a type."""
    parts = [f"`{name.replace('`', '``')}`: {ddl}" for name, type in schema if (ddl := kind(type)) is not None]
    return f"struct<{', '.join(parts)}>"


def _parsed(text: Column, ddl: str) -> Column:
    return F.from_json(text, ddl, _STRICT)


# --- reading -----------------------------------------------------------------------------------------------------


def read_json(frame: DataFrame, payload: Column, form: JsonForm, prefix: str) -> DataFrame:
    """Return a frame with the events of a payload as one chunk.

    Parameters
    ----------
    frame : DataFrame
        Records.
    payload : Column
        Their bytes.
    form : JsonForm
        What is read.
    prefix : str
        Of the columns that are added: ``<prefix>_events`` (an array of structs, empty where nothing can be read),
        ``<prefix>_bad`` (whether the payload as a whole cannot be), ``<prefix>_left`` (events left out, an int).
    """

    def name(what: str) -> str:
        return f"{prefix}_{what}"

    fits = F.is_valid_utf8(payload.cast("string")) & (F.octet_length(payload) <= F.lit(MAX_BYTES))
    raw = F.when(fits, payload.cast("string"))
    # Each step is a column by itself, so that it is computed once however often later ones name it.
    frame = frame.withColumn(name("raw"), raw).withColumn(name("whole"), _whole(F.col(name("raw"))))
    whole = F.col(name("whole"))
    shape = F.substring(F.ltrim(F.col(name("raw")), F.lit(" \t\n\r")), 1, 1)
    keys = F.array_distinct(F.map_keys(_parsed(whole, _MAP)))
    wrapped = is_true((F.size(keys) == F.lit(1)) & (F.get(keys, F.lit(0)) == F.lit(_EVENT)))
    frame = frame.withColumn(name("many"), shape == F.lit("[")).withColumn(name("wrapped"), wrapped)
    inner = _parsed(whole, "struct<event:string>")[_EVENT]
    elements = (
        F.when(F.col(name("many")), whole)
        # Written anew by Spark `whole` has no blanks, so its first characters tell what the value is.
        .when(F.col(name("wrapped")) & F.startswith(whole, F.lit('{"event":[')), inner)
        .when(F.col(name("wrapped")) & F.startswith(whole, F.lit('{"event":{')), _array_of(inner))
        .when(shape == F.lit("{"), _array_of(whole))
    )
    frame = frame.withColumn(name("list"), elements)
    chunk = F.when(F.col(name("many")), _lenient(F.col(name("list")), form)).otherwise(
        _exact(F.col(name("list")), form)
    )
    frame = frame.withColumn(name("chunk"), chunk)
    found = F.col(name("chunk"))
    bad = ~is_true(found.isNotNull() & ~F.exists(found, lambda one: one["bad"]))
    kept = F.transform(F.filter(found, lambda one: ~one["missing"]), lambda one: one["row"])
    nothing = F.array().cast(_events_ddl(form.schema))
    frame = frame.withColumn(name("bad"), bad)
    frame = frame.withColumn(name("events"), F.when(F.col(name("bad")), nothing).otherwise(kept))
    left = F.when(F.col(name("bad")), F.lit(0)).otherwise(F.size(F.filter(found, lambda one: one["missing"])))
    return frame.withColumn(name("left"), left)


def _events_ddl(schema: Schema) -> str:
    parts = ", ".join(f"{field(n)}: {SPARK_TYPES[type]}" for n, type in enumerate(schema.types))
    return f"array<struct<{parts}>>"


def _array_of(text: Column) -> Column:
    return F.concat(F.lit("["), text, F.lit("]"))


def _whole(raw: Column) -> Column:
    """Return a payload that is JSON to its last character, written anew; null for anything else.

    Spark stops reading where a value ends. So it reads an array of the payload and of a mark that no payload knows.
    """
    mark = F.md5(raw.cast("binary"))
    both = _parsed(F.concat(F.lit("["), raw, F.lit(',"'), mark, F.lit('"]')), "array<string>")
    first = F.get(both, F.lit(0))
    return F.when((F.size(both) == F.lit(2)) & (F.get(both, F.lit(1)) == mark), first)


def _exact(elements: Column, form: JsonForm) -> Column:
    """Return the events of objects in the form that the sink writes: values must be of the very types."""
    maps = _parsed(elements, f"array<{_MAP}>")
    texts = _parsed(elements, f"array<{_struct(form.schema, lambda _: 'string')}>")
    kinds = _parsed(elements, f"array<{_struct(form.schema, _asked_kind)}>")
    names = F.array(*(F.lit(name) for name in form.schema.names))

    def one(parts: Column) -> Column:
        keys = F.map_keys(parts["maps"])
        refused = F.size(F.array_except(keys, names)) > F.lit(0)
        if form.fails_on_missing:
            refused = refused | (F.size(F.array_except(names, keys)) > F.lit(0))
        values, wrong = [], []
        for position, (name, type) in enumerate(form.schema):
            text = parts["texts"][name]
            value = text if type is Type.STRING else _of_kind(text, F.schema_of_variant(parts["kinds"][name]), type)
            values.append(value.cast(SPARK_TYPES[type]).alias(field(position)))
            wrong.append(text.isNotNull() & value.isNull())
        bad = ~is_true(~(parts["maps"].isNull() | refused | _any(wrong)))
        return F.struct(bad.alias("bad"), F.lit(False).alias("missing"), F.struct(*values).alias("row"))

    columns = [maps.alias("maps"), texts.alias("texts")]
    if any(type is not Type.STRING for type in form.schema.types):
        columns.append(kinds.alias("kinds"))
    return F.transform(F.arrays_zip(*columns), one)


def _asked_kind(type: Type) -> str | None:
    return None if type is Type.STRING else "variant"


def _of_kind(text: Column, kind: Column, type: Type) -> Column:
    """Return a value where it is of the very type: null where it is not."""
    if type is Type.BOOL:
        return F.when(kind == F.lit("BOOLEAN"), text == F.lit("true"))
    if type in (Type.INT, Type.LONG):
        return F.when(kind == F.lit("BIGINT"), text.try_cast(SPARK_TYPES[type]))
    number = (kind == F.lit("BIGINT")) | F.startswith(kind, F.lit("D"))  # DECIMAL(…) or DOUBLE
    if type is Type.DOUBLE:
        # A whole number is not of the very type of a double.
        number = number & text.rlike("[.eE]")
    return F.when(number, text.try_cast("double")).cast(SPARK_TYPES[type])


def _lenient(elements: Column, form: JsonForm) -> Column:
    """Return the events of an array's objects: values are read from their text."""
    flat = _struct(form.schema, lambda _: "string")
    maps = _parsed(elements, f"array<{_MAP}>")
    texts = _parsed(elements, f"array<{flat}>")
    inner = _parsed(elements, f"array<struct<event: {flat}>>")

    def one(parts: Column) -> Column:
        keys = F.array_distinct(F.map_keys(parts["maps"]))
        wrapper = is_true((F.size(keys) == F.lit(1)) & (F.get(keys, F.lit(0)) == F.lit(_EVENT)))
        within = parts["inner"][_EVENT]
        inside = wrapper & within.isNotNull()
        nested = F.get(F.map_values(parts["maps"]), F.lit(0))
        known = F.when(inside, F.map_keys(_parsed(nested, _MAP))).otherwise(keys)
        bad = parts["maps"].isNull() | (wrapper & ~inside & F.startswith(nested, F.lit("[")))
        event = F.when(inside, within).otherwise(parts["texts"])
        return let([event, known], lambda e, k: F.struct((~is_true(~bad)).alias("outer"), _row(e, k, form).alias("in")))

    def settled(one: Column) -> Column:
        bad = one["outer"] | one["in"]["bad"]
        return F.struct(bad.alias("bad"), one["in"]["missing"].alias("missing"), one["in"]["row"].alias("row"))

    zipped = F.arrays_zip(maps.alias("maps"), texts.alias("texts"), inner.alias("inner"))
    return F.transform(F.transform(zipped, one), settled)


def _row(event: Column, keys: Column, form: JsonForm) -> Column:
    values, wrong, absent = [], [], []
    for position, (name, type) in enumerate(form.schema):
        text = event[name]
        value = converted(text, Type.STRING, type)
        values.append(value.alias(field(position)))
        wrong.append(text.isNotNull() & value.isNull())
        absent.append(~is_true(F.array_contains(keys, name)))
    missing = _any(absent) if form.fails_on_missing else F.lit(False)
    return F.struct(is_true(_any(wrong)).alias("bad"), missing.alias("missing"), F.struct(*values).alias("row"))


def _any(conditions: list[Column]) -> Column:
    return reduce(lambda left, right: left | right, conditions)


# --- writing -----------------------------------------------------------------------------------------------------


def write_json(events: Column, form: JsonForm) -> Column:
    """Return the payloads of a chunk, an array of texts: one, or one for each event where they are not grouped."""
    texts = F.transform(events, lambda event: _event(event, form.schema))
    if not form.groups:
        return texts
    grouped = F.array(F.concat(F.lit("["), F.array_join(texts, ","), F.lit("]")))
    return F.when(F.size(events) > F.lit(1), grouped).otherwise(texts)


def _event(event: Column, schema: Schema) -> Column:
    parts = []
    for position, (name, type) in enumerate(schema):
        before = f'{{"{_EVENT}":{{' if position == 0 else ","
        parts += [F.lit(f"{before}{json.dumps(name)}:"), _written(event[field(position)], type)]
    return F.concat(*parts, F.lit("}}"))


def _written(value: Column, type: Type) -> Column:
    if type is Type.STRING:
        return F.when(value.isNull(), F.lit("null")).otherwise(_quoted(value))
    if type in (Type.FLOAT, Type.DOUBLE):
        finite = ~F.isnan(value) & (F.abs(value) < F.lit(float("inf")))
        return F.coalesce(F.when(finite, value.cast("string")), F.lit("null"))
    return F.coalesce(value.cast("string"), F.lit("null"))


#: Control characters whose number has a letter in base 16: Spark writes it large, the mapper small.
_ODD = r"[\x0b\x0e\x0f\x1a-\x1f]"


def _quoted(value: Column) -> Column:
    def plain(text: Column) -> Column:
        written = F.to_json(F.struct(text.alias("a")))
        # Of {"a":"…"} the five characters in front of the text in quotes go, and the brace behind it.
        return F.substring(written, F.lit(6), F.char_length(written) - F.lit(6))

    def one(character: Column) -> Column:
        small = F.concat(F.lit("\\u00"), F.lower(F.hex(character)))
        return F.when(character.rlike(_ODD), small).otherwise(_bare(plain(character)))

    slowly = F.concat(F.lit('"'), F.array_join(F.transform(F.split(value, ""), one), ""), F.lit('"'))
    return F.when(value.rlike(_ODD), slowly).otherwise(plain(value))


def _bare(quoted: Column) -> Column:
    """Return a text in quotes without them."""
    return let([quoted], lambda text: F.substring(text, F.lit(2), F.char_length(text) - F.lit(2)))
