"""Reads the options of a ``@source`` or ``@sink``: texts that must be numbers, switches, addresses or secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from spdist.errors import AppValidationError, Span
from spdist.language import ast

__all__ = ["Options", "local_path", "options_of", "written_in"]

#: A password that is not written into the app; ``${…}`` there is a variable of SiddhiQL.
_SECRET = re.compile(r"(env|file):(.+)")


@dataclass(frozen=True)
class Options:
    """The options of one annotation.

    Parameters
    ----------
    values : mapping of str to str
        Keys in lower case.
    what : str
        Whose they are, for messages: ``the @source of stream 'S'``.
    spans : mapping of str to Span
        Where each option is written; an error without it shows `span`.
    span : Span, optional
        Where the annotation is written.
    """

    values: Mapping[str, str]
    what: str
    spans: Mapping[str, Span | None] = field(default_factory=dict)
    span: Span | None = None

    def wrong(self, key: str, why: str, hint: str | None = None) -> AppValidationError:
        """Return the error for an option; `why` ends the sentence "'key' of …"."""
        return AppValidationError(
            f"'{key}' of {self.what} {why}", span=self.spans.get(key.lower()) or self.span, hint=hint
        )

    def text(self, key: str, default: str = "") -> str:
        """Return an option, or `default` where it is not written or empty."""
        return self.values.get(key) or default

    def needed(self, key: str, example: str) -> str:
        """Return an option; raises AppValidationError where it is not written."""
        value = self.values.get(key)
        if not value:
            raise self.wrong(key, "is missing", f"For example: {key}='{example}'")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Return a switch; raises AppValidationError where it is neither true nor false."""
        value = self.text(key, str(default)).strip().lower()
        if value not in ("true", "false"):
            raise self.wrong(key, f"is true or false, not '{value}'")
        return value == "true"

    def whole(self, key: str, default: int, least: int = 0) -> int:
        """Return a whole number; raises AppValidationError where it is none or too small."""
        value = self.text(key, str(default)).strip()
        if not value.lstrip("-").isdecimal() or int(value) < least:
            raise self.wrong(key, f"is a whole number from {least} on, not '{value}'")
        return int(value)

    def choice(self, key: str, default: str, known: tuple[str, ...]) -> str:
        """Return one of the words `known`, which compare without regard to case, as it is spelled there."""
        value = self.text(key, default)
        for word in known:
            if word.lower() == value.lower():
                return word
        raise self.wrong(key, f"cannot be '{value}'", f"It is one of {', '.join(known)}.")

    def secret(self, key: str) -> str:
        """Return a password: as written, or what ``env:NAME`` or ``file:path`` stands for."""
        value = self.values.get(key) or ""
        reference = _SECRET.fullmatch(value.strip())
        if reference is None:
            return value
        kind, name = reference.groups()
        if kind == "file":
            try:
                return Path(name).read_text(encoding="utf-8").strip()
            except OSError as error:
                raise self.wrong(key, f"cannot be read: {error}") from error
        found = os.environ.get(name)
        if found is None:
            raise self.wrong(key, f"names the environment variable {name}, which is not set")
        return found

    def is_reference(self, key: str) -> bool:
        """Tell whether a password is not written here but named: ``env:NAME``, ``file:path``."""
        return _SECRET.fullmatch((self.values.get(key) or "").strip()) is not None

    def pem(self, key: str) -> Path | None:
        """Return the path of a PEM file, None where none is written; Java's key stores are refused."""
        value = self.values.get(key)
        if not value:
            return None
        path = Path(value)
        try:
            readable = b"-----BEGIN" in path.read_bytes()
        except OSError as error:
            raise self.wrong(key, f"cannot be read: {error}") from error
        if not readable:
            hint = "convert it: keytool -importkeystore … -deststoretype PKCS12, then openssl pkcs12 -out store.pem"
            raise self.wrong(key, "is no PEM file; Java's key stores cannot be read here", hint)
        return path


def written_in(*annotations: ast.Annotation) -> dict[str, str]:
    """Return what stands in annotations by its key in lower case; of equal keys the last one counts."""
    return {(one.key or "").lower(): one.value for annotation in annotations for one in annotation.elements}


def options_of(annotation: ast.Annotation, stream: str) -> Options:
    """Return the options of a ``@source`` or ``@sink``, with the places where they are written."""
    return Options(
        written_in(annotation),
        f"the @{annotation.name} of stream '{stream}'",
        {(one.key or "").lower(): one.span for one in annotation.elements},
        annotation.span,
    )


def local_path(uri: str) -> Path:
    """Return the path that ``file:/…``, ``file:///…`` or a plain path names."""
    if uri.lower().startswith("file:"):
        return Path(unquote(urlsplit(uri).path))
    return Path(uri).expanduser()
