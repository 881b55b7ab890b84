"""``make tables``: writes tables.json, what lark makes of the grammar, so that nothing else ever needs lark.

Only this module knows lark's insides. A test fails where the file is older than the grammar, or than lark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

__all__ = ["lark_of_grammar", "load_tables", "tables_of", "written"]

#: How the grammar writes a terminal of one or several keywords.
_KEYWORDS = re.compile(r"\(\?i:\(?([a-z|]+)\)?\(\?!\[A-Za-z_0-9\]\)\)")
_WORD = "(?P<WORD>[A-Za-z_][A-Za-z_0-9]*)"
_END = r"(?P<END>\Z)"


def lark_of_grammar() -> Any:
    """Return lark with the grammar."""
    from lark import Lark

    grammar = files("spdist.language.parsing").joinpath("grammar.lark").read_text("utf-8")
    starts = ["app", "expression", "on_demand"]
    return Lark(
        grammar, parser="lalr", lexer="contextual", start=starts, propagate_positions=True, maybe_placeholders=False
    )


def tables_of(lark: Any) -> dict[str, Any]:
    """Return lark's tables as plain data.

    Parameters
    ----------
    lark : Lark
        Made with ``parser="lalr"``, ``lexer="contextual"``, ``maybe_placeholders=False``, without transformer.

    Returns
    -------
    dict
        ``starts`` and ``ends``, the first and last state by what is read; ``words``, the terminal of each keyword;
        ``terminals``, and ``kept``, those that trees keep; ``ignored``, what matches blanks and comments; ``scanners``,
        for each state the number of its pattern in ``patterns``, which matches blanks and comments and then a token;
        ``rules``, see `spdist.language.parsing.lalr`; ``actions``, for each state by symbol the state that follows, or
        ~n where rule n is complete.

    Raises
    ------
    AttributeError
        This version of lark keeps its tables elsewhere.
    ValueError
        The grammar has a terminal that is no keyword and begins like a word.
    """
    frontend = lark.parser
    table, lexers = frontend.parser._parse_table, frontend.lexer.lexers
    ignored = [one.pattern.to_regexp() for one in lark.terminals if one.name in frontend.lexer.root_lexer.ignore_types]
    words = {word: terminal.name for terminal in lark.terminals for word in _words(terminal)}
    states = _numbered(table)
    numbers: dict[Any, int] = {}
    rules: list[list[Any]] = []
    kept: set[str] = set()
    actions: list[dict[str, int]] = []
    patterns: dict[str, int] = {}
    scanners: list[int] = []
    for state in states:
        row: dict[str, int] = {}
        for symbol, (_, argument) in sorted(table.states[state].items()):
            if not isinstance(argument, int) and argument not in numbers:
                numbers[argument] = len(rules)
                rules.append(_rule(argument))
                keeps = argument.options.keep_all_tokens
                kept |= {part.name for part in argument.expansion if part.is_term and (keeps or not part.filter_out)}
            row[str(symbol)] = states[argument] if isinstance(argument, int) else ~numbers[argument]
        actions.append(row)
        scanners.append(patterns.setdefault(_pattern(lexers[state]), len(patterns)))
    return {
        "starts": {name: states[state] for name, state in sorted(table.start_states.items())},
        "ends": {name: states[state] for name, state in sorted(table.end_states.items())},
        "words": dict(sorted(words.items())),
        "terminals": ["$END", *sorted(terminal.name for terminal in lark.terminals)],
        "kept": sorted(kept),
        "ignored": _skipped(ignored),
        "scanners": scanners,
        "patterns": list(patterns),
        "rules": rules,
        "actions": actions,
    }


def _numbered(table: Any) -> dict[int, int]:
    """Return the states with numbers in the order of a walk from the first ones; lark's differ from run to run."""
    found = dict.fromkeys(state for _, state in sorted(table.start_states.items()))
    # The loop runs on over what it appends: a walk in breadth
    waiting = list(found)
    for state in waiting:
        for _, (_, argument) in sorted(table.states[state].items()):
            if isinstance(argument, int) and argument not in found:
                found[argument] = None
                waiting.append(argument)
    return {state: number for number, state in enumerate(found)}


def _rule(rule: Any) -> list[Any]:
    options = rule.options
    kept = [
        [at, not symbol.is_term and symbol.name.startswith("_")]
        for at, symbol in enumerate(rule.expansion)
        if options.keep_all_tokens or not (symbol.is_term and symbol.filter_out)
    ]
    plain = len(kept) == len(rule.expansion) and not any(inlined for _, inlined in kept)
    origin = str(rule.origin.name)
    data = str(rule.alias or options.template_source or origin)
    return [len(rule.expansion), origin, data, bool(options.expand1 and not rule.alias), None if plain else kept]


def _words(terminal: Any) -> list[str]:
    match = _KEYWORDS.fullmatch(terminal.pattern.to_regexp())
    return match[1].split("|") if match else []


def _pattern(lexer: Any) -> str:
    """Return what matches a state's next token: the first of its terminals that fits, in lark's order.

    Which keyword a word is, or whether a name, need not be asked of a pattern: all words are one group.
    """
    ignored, tokens = [], []
    word = False
    for terminal in lexer.terminals:
        pattern = terminal.pattern.to_regexp()
        if terminal.name in lexer.ignore_types:
            ignored.append(pattern)
            continue
        if _words(terminal):
            word = True
            continue
        # Also without keywords: a state may take names only
        word = word or terminal.name == "NAME"
        tokens.append((terminal.name, pattern))
    free = any(re.match(pattern, " ") for _, pattern in tokens)
    if word and any(re.match(pattern, "a") for name, pattern in tokens if name != "NAME"):
        raise ValueError(f"one of the terminals {[name for name, _ in tokens]} begins like a word")
    # Where blanks may be a token, nothing is skipped.
    before = "" if free else _skipped(ignored)
    choices = [_WORD] if word else []
    return before + f"(?:{'|'.join([*choices, *(f'(?P<{name}>{pattern})' for name, pattern in tokens), _END])})"


def _skipped(patterns: list[str]) -> str:
    """Return what matches all that is between two tokens; possessive, since there are many ways to cut blanks."""
    return f"(?>{'|'.join(patterns)})*+"


def load_tables() -> Any:
    """Return the tables that were written down."""
    return json.loads(files("spdist.language.parsing").joinpath("tables.json").read_text("utf-8"))


def written(tables: dict[str, Any]) -> str:
    """Return tables as the text of tables.json, a line for each entry, so that changes are seen."""
    return "{\n" + ",\n".join(_lines(tables)) + "\n}\n"


def _lines(tables: dict[str, Any]) -> Iterator[str]:
    for name, value in tables.items():
        if isinstance(value, list) and isinstance(value[0], (dict, list, str)):
            entries = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in value)
            yield f'"{name}": [\n{entries}\n]'
        else:
            yield f'"{name}": {json.dumps(value, separators=(",", ":"))}'


def main() -> None:
    """Write the file next to this module."""
    Path(__file__).with_name("tables.json").write_text(written(tables_of(lark_of_grammar())), encoding="utf-8")


if __name__ == "__main__":
    main()
