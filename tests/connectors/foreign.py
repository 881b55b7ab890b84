"""Packages of others, as they are installed: modules and what a distribution says of itself, in a directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def install(directory: Path, name: str, modules: Mapping[str, str], entries: Mapping[str, Mapping[str, str]]) -> None:
    """Put a distribution into `directory`: text by module, and ``module:object`` by group and entry point."""
    about = directory / f"{name.replace('-', '_')}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    lines = [
        line
        for group, own in entries.items()
        for line in (f"[{group}]", *(f"{entry} = {place}" for entry, place in own.items()))
    ]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for module, text in modules.items():
        (directory / f"{module}.py").write_text(text, encoding="utf-8")
