"""The notebooks and settings that come with spdist: those of a checkout, else those in the installed package."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from spdist.errors import NotebookError

__all__ = ["copy_workspace", "is_installed", "workspace"]

#: What a wheel brings along, see ``force-include`` in pyproject.toml.
_INSTALLED = "_workspace"
#: Where spdist is installed.
_PACKAGE = Path(__file__).resolve().parent
_FOLDERS = ("notebooks", "conf")
_NEEDED = ("notebooks/manager.ipynb", "notebooks/worker.ipynb", "conf/local")


def workspace() -> Path:
    """Return the directory that holds ``conf`` and ``notebooks``.

    Raises
    ------
    NotebookError
        spdist was installed without them.
    """
    package = _PACKAGE
    for root in (package.parent, package / _INSTALLED):
        if all((root / part).exists() for part in _NEEDED):
            return root
    raise NotebookError(
        f"{package} came without notebooks and settings: neither {package.parent} nor {package / _INSTALLED} has "
        f"{', '.join(_NEEDED)}",
        hint="install it again, from a wheel or a checkout: pip install --force-reinstall spdist",
    )


def is_installed(root: Path) -> bool:
    """Return whether a workspace is part of an installed package, and no checkout."""
    return root.name == _INSTALLED


def copy_workspace(target: Path, *, replace: bool = False) -> Iterator[tuple[Path, bool]]:
    """Copy notebooks and settings to where they can be changed.

    Parameters
    ----------
    target : Path
        Gets the folders ``notebooks`` and ``conf``; made if it is not there.
    replace : bool
        Whether files that are there are replaced.

    Yields
    ------
    tuple of Path and bool
        A file, and whether it was copied: False where it was there already.

    Raises
    ------
    NotebookError
        spdist was installed without them.
    """
    root = workspace()
    for folder in _FOLDERS:
        for source in sorted((root / folder).rglob("*")):
            # Not what Jupyter and editors leave behind, such as `.ipynb_checkpoints`.
            if source.is_file() and not any(part.startswith(".") for part in source.relative_to(root).parts):
                copy = target / source.relative_to(root)
                fresh = replace or not copy.exists()
                if fresh:
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(source, copy)
                yield copy, fresh
