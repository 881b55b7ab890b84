"""The types that settings have: what annotations of fields name, and pydantic validates by and describes.

The description of a type, or a ValueError, ends the sentence "<key> must be …"; the binder adds file, line, key, value.
Whoever only imports `spdist.config` does without this module, as pydantic takes long to import.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, TypeAdapter, ValidationError

from spdist.config.kinds import Secret, bytes_of, database_url, is_host, is_safe_url, place
from spdist.config.source import ResolvedScalar

__all__ = ["PlainPassword", "Written", "as_written", "duration", "read_by", "schema_of", "that", "value_of"]

_UNITS = {"ms": 1, "s": 1000, "sec": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}
_DURATION = r"(\d+)\s*(ms|s|sec|m|min|h)"
_BUCKET = r"(s3|s3a|gs|az|abfs|abfss)://[^/\s?#@]+(/[^\s?#]*)?"
_MEMORY = r"^[1-9]\d*[mgMG]$"
#: WSO2's stores of revisions; an incremental one is its base here, where states are incremental anyway.
_STORE = r"(.*\.)?(Incremental)?(FileSystemPersistenceStore|DBPersistenceStore)"


# ------------------------------------------------------------------------------------------------------------- reading
@dataclass(frozen=True, slots=True)
class Written:
    """What validators know of a value besides what it means in YAML.

    `text` is as it stands in the file, with references resolved, and `whole` says whether it was one reference and
    nothing else. Relative paths start from the directory `base`. `plain` accepts passwords that stand there as text.
    """

    text: str
    whole: bool
    base: Path
    plain: bool


class PlainPassword(ValueError):
    """A password stands in the file as text where that is not accepted; where it is, it may be right."""


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of what may be written for the type `kind`."""
    return _adapter(kind).json_schema()


def value_of(kind: Any, scalar: ResolvedScalar, base: Path, *, plain: bool = False) -> Any:
    """Return what a scalar of a file in `base` means to the type `kind`; `plain` accepts passwords as text.

    Raises
    ------
    PlainPassword
        It is one, and not accepted.
    ValueError
        It is no such value; the text ends the sentence "<key> must be …".
    """
    written = Written(scalar.text, scalar.whole, base, plain)
    try:
        return _adapter(kind).validate_python(scalar.value, strict=True, context=written)
    except ValidationError as error:
        own = error.errors(include_url=False, include_input=False)[0].get("ctx", {}).get("error")
        told = own if isinstance(own, ValueError) and own.args else ValueError(_meaning(schema_of(kind)))
    # Out here, as the error in there holds the value, which may be a password.
    raise told


def _meaning(schema: dict[str, Any]) -> str:
    """Return in our words which values pydantic takes."""
    if "description" in schema:
        return str(schema["description"])
    if "enum" in schema:
        return " or ".join(schema["enum"])
    if schema["type"] == "boolean":
        return "true or false"
    return f"a whole number from {schema['minimum']} to {schema['maximum']}"


# ---------------------------------------------------------------------------------------------------------- validators
_ANY_TEXT = Annotated[str, Field(pattern=r"\S")] | int | float | bool
#: For text that YAML may take for something else: 007 is a name like any other.
as_written = BeforeValidator(lambda _, info: info.context.text, json_schema_input_type=_ANY_TEXT)


def read_by(read: Callable[[Written], Any], written: Any = _ANY_TEXT) -> PlainValidator:
    """Return the validator that takes what `read` returns; `written` is the type of what may stand in the file."""
    return PlainValidator(lambda _, info: read(info.context), json_schema_input_type=written)


def that(holds: Callable[[Any], object]) -> AfterValidator:
    """Return the validator of values for which `holds` is true; the type's description says which those are."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise ValueError
        return value

    return AfterValidator(check)


@cache
def duration(least_ms: int) -> BeforeValidator:
    """Return the validator of times of at least `least_ms` ms: a whole number of ms, or text with a unit (``2s``)."""

    def milliseconds(value: Any) -> int:
        if isinstance(value, str) and (match := re.fullmatch(_DURATION, value.strip())):
            value = int(match[1]) * _UNITS[match[2]]
        if isinstance(value, bool) or not isinstance(value, int) or value < least_ms:
            raise ValueError
        return value

    told = f"a time of at least {least_ms} ms: whole milliseconds, or with a unit such as 500ms, 2s, 5min"
    written = Annotated[int, Field(ge=least_ms)] | Annotated[str, Field(pattern=rf"^\s*{_DURATION}\s*$")]
    return BeforeValidator(milliseconds, json_schema_input_type=Annotated[written, Field(description=told)])


def _one_line(text: str) -> str:
    if re.search(r"[\x00-\x1f\x7f]", text):
        raise ValueError("one line of text")
    return text


def _place(written: Written) -> Path:
    if not written.text.strip():
        raise ValueError
    return place(written.text, written.base)


def _location(written: Written) -> Path | str:
    if "://" not in written.text:
        return place(written.text, written.base)
    if not re.fullmatch(_BUCKET, written.text):
        raise ValueError
    return written.text.rstrip("/")


def _memory_bytes(written: Written) -> int:
    if not re.fullmatch(_MEMORY, written.text):
        raise ValueError
    return bytes_of(written.text.lower())


def _store(written: Any) -> Any:
    return match[3] if isinstance(written, str) and (match := re.fullmatch(_STORE, written)) else written


def _roles(written: Written) -> tuple[str, ...]:
    names = tuple(part.strip() for part in written.text.split(",") if part.strip())
    if not names:
        raise ValueError
    return names


def _secret(written: Written) -> Secret:
    if not (written.whole or written.plain):
        raise PlainPassword(
            "a reference, since passwords are not written into this file: "
            "${env:NAME} for an environment variable, or ${file:path} for a file that only this user may read"
        )
    if not written.text:
        raise ValueError("a password that is not empty")
    return Secret(written.text)


def _user_password(written: Written) -> Secret:
    found = _secret(written)
    if written.whole:
        return found
    try:
        # `validate`, as Python else skips foreign characters, and much text would pass for base64.
        decoded = base64.b64decode(written.text, validate=True).decode("utf-8")
    except ValueError:  # as are the errors of both
        decoded = ""
    if not decoded.isprintable() or not decoded:
        raise ValueError(
            "in base64, as WSO2 keeps the passwords of users (printf %s 'password' | base64), or a reference, "
            "which is taken as it is: ${env:NAME}, ${file:path}"
        )
    return Secret(decoded)


def _client_properties(written: Written) -> Secret:
    if not written.text.strip():
        raise ValueError
    for line in written.text.splitlines():
        name, equals, value = (part.strip() for part in line.partition("="))
        if not name or name.startswith("#"):
            continue
        if not equals:
            raise ValueError
        opens = value and re.search("password|secret|jaas", name, re.IGNORECASE)
        if opens and not (written.whole or written.plain):
            raise PlainPassword("a reference where passwords are among them: ${file:client.properties} or ${env:NAME}")
    return Secret(written.text)


# --------------------------------------------------------------------------------------------------------------- types
_HOST = "the name or the address of a host, such as 127.0.0.1 or ::1, without port and path"
_URL = "an address such as https://id.example/realms/sp; http:// only on 127.0.0.1, ::1 or localhost"
_PLACE = "a directory, or a bucket such as s3://bucket/prefix, gs://… or az://…, without credentials"
_AMOUNT = "an amount of memory such as 512m or 2g"
_MAVEN = "Maven coordinates such as io.delta:delta-spark_2.13:4.0.0"
_STORES = "FileSystemPersistenceStore or DBPersistenceStore, with or without a Java package in front"
#: `spdist.config.wso2` makes SQLite of H2 in a file.
_JDBC = Annotated[str, Field(pattern=r"^(jdbc:)?(sqlite|postgresql|mysql|mariadb)(\+\w+)?:|^jdbc:h2:")]
_PASSWORD = Annotated[
    Annotated[str, Field(min_length=1)] | int | float | bool,
    Field(description="a reference to a password: ${env:NAME} or ${file:path}"),
]

Text = Annotated[str, as_written, that(str.strip), Field(description="text that is not empty")]
Word = Annotated[Text, AfterValidator(_one_line)]
Port = Annotated[int, Field(ge=0, le=65535)]
Host = Annotated[str, as_written, that(is_host), Field(description=_HOST)]
SafeUrl = Annotated[str, Field(pattern="^[Hh][Tt][Tt][Pp][Ss]?://", description=_URL), that(is_safe_url)]
Place = Annotated[Path, read_by(_place), Field(description="a path")]
Location = Annotated[
    Path | str,
    read_by(_location, Annotated[str, Field(pattern=rf"^({_BUCKET}$|(?![\s\S]*://))")] | int | float | bool),
    Field(description=_PLACE),
]
DatabaseUrl = Annotated[str, read_by(lambda written: database_url(written.text, written.base), _JDBC)]
Memory = Annotated[str, Field(pattern=_MEMORY, description=_AMOUNT), AfterValidator(str.lower)]
MemoryBytes = Annotated[int, read_by(_memory_bytes, Memory)]
Maven = Annotated[str, Field(pattern=r"^[\w.\-]+:[\w.\-]+:[\w.\-]+$", description=_MAVEN)]
PersistenceStore = Annotated[
    Literal["FileSystemPersistenceStore", "DBPersistenceStore"],
    BeforeValidator(_store, json_schema_input_type=Annotated[str, Field(pattern=f"^{_STORE}$")]),
    Field(description=_STORES),
]
Roles = Annotated[tuple[str, ...], read_by(_roles), Field(description="one role or several with commas between them")]
SecretText = Annotated[Secret, read_by(_secret, _PASSWORD)]
UserPassword = Annotated[Secret, read_by(_user_password, _PASSWORD)]
ClientProperties = Annotated[Secret, read_by(_client_properties, str), Field(description="lines of name=value")]
