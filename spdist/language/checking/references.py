"""``${secret:NAME}`` in the options of sources, sinks and stores: where it may stand, and what else looks like it.

An app names secrets that the node allows (``siddhi.secrets`` in ``deployment.yaml``), in options for logins only. It
never names variables or files of the node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from spdist.connectors.registry import connector, store_types
from spdist.errors import AppValidationError
from spdist.language import ast
from spdist.language.checking.names import Names

__all__ = ["check_references"]

_REFERENCE = re.compile(r"\$\{\s*(env|file|sys|sec|secret)\s*:([^}]*)\}?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
#: A whole value that was once read as a variable or a file.
_BARE = re.compile(r"\s*(env|file):(.+)")
_LOGIN = re.compile(r"password|secret|token|username|consumer\.key", re.IGNORECASE)


def check_references(names: Names, annotation: ast.Annotation) -> None:
    """Check ``@source``, ``@sink`` or ``@store`` and what is nested in it."""
    kind = annotation.get("type") or ""
    declared = connector(kind) or store_types().get(kind)
    known = None if declared is None else declared.secrets
    for own, nested in _all(annotation):
        message_part = nested.name.lower() in ("map", "payload", "attributes")
        for element in nested.elements:
            key = (element.key or "").lower()
            may = () if message_part else (key,) if known is None else known
            may = (*may, key) if "option.*" in may and key.startswith("option.") else may
            told = _wrong(f"'{element.key or own}' of '@{nested.name}'", key, element.value, may)
            if told is not None:
                names.refuse(AppValidationError, told[0], element.span or nested.span, told[1])


def _all(annotation: ast.Annotation) -> Iterator[tuple[str, ast.Annotation]]:
    yield annotation.name, annotation
    for nested in annotation.annotations:
        yield from _all(nested)


def _wrong(what: str, key: str, value: str, may: tuple[str, ...]) -> tuple[str, str] | None:
    """Return what is wrong with an option's references, and what to write; None where nothing is."""
    bare = _BARE.fullmatch(value) if _LOGIN.search(key) else None
    found = [bare] if bare is not None else list(_REFERENCE.finditer(value))
    for one in found:
        kind, name = one[1], one[2].strip()
        if kind != "secret":
            wanted = name if kind != "file" and _NAME.fullmatch(name) else "NAME"
            source = f"${{file:{name}}}" if kind == "file" else f"${{env:{name if kind == 'env' else 'VARIABLE'}}}"
            hint = f"Write ${{secret:{wanted}}}, and in deployment.yaml: siddhi.secrets: {{{wanted}: '{source}'}}."
            if key not in may:
                hint = _where(may)
            return f"{what} names a variable or file of the node, which an app never sees", hint
        if not _NAME.fullmatch(one[2]) or not one[0].endswith("}"):
            return f"{what} names no secret", "Write ${secret:NAME}, with a name of siddhi.secrets in deployment.yaml."
        if key not in may:
            return f"{what} cannot hold a secret, as it is sent or shown", _where(may)
    return None


def _where(may: tuple[str, ...]) -> str:
    return f"Secrets stand in {', '.join(may)}." if may else "Nothing of this kind takes a secret."
