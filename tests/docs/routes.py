"""The page of all routes of the REST interface, for docs/reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["BY_HAND", "FOLDER", "cell", "operations", "plain", "rest"]

FOLDER = Path(__file__).parents[2] / "docs/reference"
BY_HAND = "Made by `make reference`; a test holds it against what is there."


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the routes of a description, each by method and path."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield f"{method.upper()} {path}", operation


def rest(documents: Mapping[str, dict[str, Any]]) -> str:
    """Return the page of all routes, given the description of each kind of node."""
    found: dict[str, tuple[list[str], dict[str, Any]]] = {}
    for node, document in documents.items():
        for name, operation in operations(document):
            found.setdefault(name, ([], operation))[0].append(node)
    lines = ["# REST", "", BY_HAND, "", "Every node shows its own routes, with bodies and answers, at `/docs`.", ""]
    lines += ["| route | nodes | permission | what it does |", "|---|---|---|---|"]
    for name, (nodes, operation) in sorted(found.items(), key=lambda one: one[0].split()[::-1]):
        permissions = {right for one in operation.get("security", ()) for rights in one.values() for right in rights}
        rights = ", ".join(f"`{one}`" for one in sorted(permissions))
        lines.append(f"| `{name}` | {', '.join(nodes)} | {rights} | {cell(operation['summary'])} |")
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """Return help without rich's marks, each paragraph in one line."""
    return "\n\n".join(" ".join(part.split()) for part in text.replace("\b", "").split("\n\n"))


def cell(text: str) -> str:
    return plain(text).replace("|", "\\|").replace("\n\n", " ")
