"""``make ledger``: writes LEDGER.md, which says of every feature of SiddhiQL whether it runs, and where it deviates.

Nothing in it is claimed: each feature of ``features.toml`` stands there with an app that is built, each name of an
extension is looked up, and each deviation of ``deviations.jsonl`` is a case with what Siddhi does and what spdist does.
In those of ``kept.jsonl`` both do what a plain computation does not.
"""

from __future__ import annotations

import json
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spdist.config.allowed import Allowed
from spdist.engine.local.app import LocalApp
from spdist.engine.local.external_stores import external_stores
from spdist.errors import ErrorKind, SiddhiAppError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse

__all__ = ["DEVIATIONS", "KEPT", "LEDGER", "deviations", "kept", "ledger"]

HERE = Path(__file__).parent
LEDGER = HERE / "LEDGER.md"
DEVIATIONS = HERE / "deviations.jsonl"
KEPT = HERE / "kept.jsonl"

S = "define stream S (k string, v int);"
STORES = f"""{S} define table T (k string, v int); define window W (k string, v int) length(3);
define aggregation A from S select k, sum(v) as t group by k aggregate every sec...year;"""
YES, NO = "supported", "not yet"


def deviations() -> list[dict[str, Any]]:
    """Return the cases in which spdist deviates on purpose."""
    return [json.loads(line) for line in DEVIATIONS.read_text(encoding="utf-8").splitlines()]


def kept() -> list[dict[str, Any]]:
    """Return the cases in which spdist does what Siddhi does, though a plain computation gives something else."""
    return [json.loads(line) for line in KEPT.read_text(encoding="utf-8").splitlines()]


def _built(text: str) -> LocalApp:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        filled = {"S": S, "R": "define stream R (k string, v int);", "DIR": directory}
        for name, value in filled.items():
            text = text.replace(f"{{{name}}}", value)
        checked = check(parse(text), catalog(scripts=True), text)
        app = LocalApp(checked, stores=external_stores(checked, Allowed((Path(directory),))))
        app.start(0)
    return app


def _status(text: str, is_query: bool) -> str:
    try:
        if is_query:
            _built(STORES).query(text)
        else:
            _built(text)
    except SiddhiAppError as error:
        if all(one.code in (ErrorKind.UNSUPPORTED, ErrorKind.UNKNOWN_EXTENSION) for one in error.errors):
            return f"{NO}: {error.errors[0].message}"
        raise
    return YES


def _names(kind: str, families: dict[str, str]) -> Iterator[str]:
    signatures = catalog()
    known = {
        "function": signatures.functions,
        "aggregator": signatures.aggregators,
        "window": signatures.windows,
        "stream function": signatures.stream_functions,
    }[kind]
    for namespace, words in families.items():
        ids = [f"{namespace}:{word}" if namespace else word for word in words.split()]
        here = [id for id in ids if id in known]
        missing = [id for id in ids if id not in known]
        listed = ", ".join(f"`{id}`" for id in here)
        status = YES if not missing else f"{NO}: {', '.join(f'`{id}`' for id in missing)}"
        yield f"| {listed or '-'} | {status} |"


def ledger() -> str:
    """Return the text of the ledger."""
    written = tomllib.loads((HERE / "features.toml").read_text(encoding="utf-8"))
    lines = [
        "# What of SiddhiQL runs",
        "",
        "Made by `make ledger`; a test fails where it is stale. Each feature was tried just now: built in the local",
        "engine, or looked up. What runs means what it means in Siddhi 5.1, but for the deviations at the end.",
    ]
    for area in written["area"]:
        lines += ["", f"## {area['name']}", "", "| feature | |", "|---|---|"]
        for feature, text in area["features"].items():
            lines.append(f"| {feature} | {_status(text, area.get('query', False))} |")
    for kind, families in written["names"].items():
        lines += ["", f"## {kind.capitalize()}s", "", "| names | |", "|---|---|", *_names(kind, families)]
    lines += ["", "## Deviations", "", "Where Siddhi plainly loses or falsifies data, the documented meaning is built."]
    for case in deviations():
        lines += ["", f"- **{case['name']}**: {case['title']} {case['reason']}"]
    lines += [
        "",
        "Periods below 1 ms that would never end are refused where they stand: with some, such as `timeBatch(0)`,",
        "Siddhi does not end, with others, such as `externalTimeBatch(at, 0)`, it puts out nothing.",
        "",
        "## Kept as Siddhi has it",
        "",
        "Not what one would compute by hand, and the same as in Siddhi, so that apps put out what they did there.",
    ]
    for case in kept():
        lines += ["", f"- **{case['name']}**: {case['title']} {case['reason']}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    LEDGER.write_text(ledger(), encoding="utf-8")
    print(f"wrote {LEDGER}")
