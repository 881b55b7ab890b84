"""SiddhiQL: text to syntax tree and back, and what an app means before anything runs."""

from __future__ import annotations

from spdist.display import bold_ansi
from spdist.errors import SpdistError
from spdist.language.ast.queries import SiddhiApp


def _ansi(line: str) -> str:
    from spdist.language.lexer import bold_line

    return bold_line(line)


def _carets(carets: str) -> str:
    return bold_ansi(carets, "wrong")


def _html(line: str) -> str:
    from spdist.language.lexer import styled_line

    return styled_line(line)


def _text(app: SiddhiApp) -> str:
    from spdist.language.format import format_app

    return format_app(app)


# Errors show lines of an app; Pygments is loaded only where somebody sees them.
SpdistError.paints = (_ansi, _carets, _html)
# So do apps, and a tree does not know how it is written.
SiddhiApp.writes = _text
