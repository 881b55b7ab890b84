"""Reads the options of a ``@source`` or ``@sink``: texts that must be numbers, switches, addresses or secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from spdist.config.allowed import SECRET, Allowed, NotAllowed
from spdist.errors import AppValidationError, Span
from spdist.java.numbers import whole_number
from spdist.language import ast
from spdist.mapping.templates import Filled

__all__ = ["Options", "local_path", "options_of", "written_in"]


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
    allowed : Allowed
        The secrets and files that the app may refer to.
    """

    values: Mapping[str, str]
    what: str
    spans: Mapping[str, Span | None] = field(default_factory=dict)
    span: Span | None = None
    allowed: Allowed = field(default_factory=Allowed)

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
        number = whole_number(value, least)
        if number is None:
            raise self.wrong(key, f"is a whole number from {least} on, not '{value}'")
        return number

    def choice(self, key: str, default: str, known: tuple[str, ...]) -> str:
        """Return one of the words `known`, which compare without regard to case, as it is spelled there."""
        value = self.text(key, default)
        for word in known:
            if word.lower() == value.lower():
                return word
        raise self.wrong(key, f"cannot be '{value}'", f"It is one of {', '.join(known)}.")

    def secret(self, key: str) -> str:
        """Return an option for a login with the secrets it names: to be used, and never to be shown."""
        return self.expanded(key, self.values.get(key) or "")

    def expanded(self, key: str, value: str) -> str:
        """Return a part of an option with the secrets it names; what came with an event stays as it is."""
        try:
            if not isinstance(value, Filled):
                return self.allowed.expand(value)
            return str(Filled.of([self.allowed.expand(part) for part in value.written], value.values))
        except NotAllowed as error:
            raise self.wrong(key, str(error), error.hint) from None

    def names_secret(self, key: str) -> bool:
        """Tell whether a password is not written here but named."""
        return SECRET.fullmatch(self.values.get(key) or "") is not None

    def path(self, key: str) -> Path:
        """Return the file or directory that an option names; raises AppValidationError where an app may not use it."""
        value = self.values[key]
        try:
            return local_path(value, self.allowed)
        except NotAllowed as error:
            raise self.wrong(key, f"{error}: '{value}'", error.hint) from None

    def pem(self, key: str) -> Path | None:
        """Return the path of a PEM file, None where none is written; Java's key stores are refused."""
        if not self.values.get(key):
            return None
        path = self.path(key)
        try:
            readable = b"-----BEGIN" in path.read_bytes()
        except OSError as error:
            raise self.wrong(key, f"cannot be read: {error.strerror or error}") from error
        if not readable:
            hint = "convert it: keytool -importkeystore … -deststoretype PKCS12, then openssl pkcs12 -out store.pem"
            raise self.wrong(key, "is no PEM file; Java's key stores cannot be read here", hint)
        return path


def written_in(*annotations: ast.Annotation) -> dict[str, str]:
    """Return what stands in annotations by its key in lower case; of equal keys the last one counts."""
    return {(one.key or "").lower(): one.value for annotation in annotations for one in annotation.elements}


def options_of(annotation: ast.Annotation, stream: str, allowed: Allowed | None = None) -> Options:
    """Return the options of a ``@source`` or ``@sink``, with the places where they are written.

    `allowed` is what the app may refer to; nothing by default.
    """
    return Options(
        written_in(annotation),
        f"the @{annotation.name} of stream '{stream}'",
        {(one.key or "").lower(): one.span for one in annotation.elements},
        annotation.span,
        allowed or Allowed(),
    )


def local_path(uri: str, allowed: Allowed) -> Path:
    """Return the path that ``file:/…``, ``file:///…`` or a plain path names, links followed.

    What an event has put into a template stays below the directory that is written before it, and makes no hidden name.

    Parameters
    ----------
    uri : str
        As written, or a `Filled` template.
    allowed : Allowed
        The directories that the app may use.

    Raises
    ------
    NotAllowed
        It names a place elsewhere.
    """
    written, values = (uri.written, uri.values) if isinstance(uri, Filled) else ((uri,), ())
    first, decode = _without_scheme(written[0])
    # Only what is written is decoded: a `%2e` that an event brings stays these three characters.
    parts = [unquote(part) if decode else part for part in (first, *written[1:])]
    path = parts[0]
    for value, after in zip(values, parts[1:], strict=True):
        filled = path + value
        # A name that begins with what an event says, or where that ends a directory, must not begin with a dot.
        if "/." in f"{path[-1:] or '/'}{value}" or ((filled or "/").endswith("/") and after.startswith(".")):
            raise NotAllowed("would have a hidden name, or leave its directory, by what an event says", _PLAIN)
        path = filled + after
    found = allowed.bounded(path)
    # Links are followed by then: below the directory means where the file really is.
    if values and not found.is_relative_to(allowed.bounded(os.path.dirname(parts[0]))):
        raise NotAllowed("would leave the directory that is written in the app, by what an event says", _PLAIN)
    return found


def _without_scheme(start: str) -> tuple[str, bool]:
    """Return the beginning of a path, and whether it is part of a URI, where letters may be written as ``%20``."""
    if not start.lower().startswith("file:"):
        try:
            return str(Path(start).expanduser()) if start.startswith("~") else start, False
        except RuntimeError as error:
            raise NotAllowed("names the home of a user who is not known", "Write the path.") from error
    rest = start[len("file:") :]
    if rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        if host.lower() not in ("", "localhost") or not slash:
            raise NotAllowed("names a file of another machine", "Write file:/path or file:///path.")
        rest = f"/{rest}"
    return rest, True


_PLAIN = "Let events bring names without . at the beginning."
