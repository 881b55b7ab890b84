"""Events are the same in whatever form they are given, and results go in again as they came out."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import spdist
from spdist.frames import StreamEvents, write_file
from spdist.language.types import Schema

TEXT = """
define stream S (name string, count int, total long, share float, mean double, late bool);
define stream Other (name string, count int, total long, share float, mean double, late bool);
from S select * insert into Same;
from S#window.length(2) select name, sum(total) as sum, max(mean) as most, count() as n group by name insert into Out;
from every e1=S -> e2=Other[count >= e1.count] select e1.name as first, e2.late as late insert into Seen;
"""
SCHEMA = Schema.of(
    [("name", "string"), ("count", "int"), ("total", "long"), ("share", "float"), ("mean", "double"), ("late", "bool")]
)
COLUMNS = ["timestamp", *SCHEMA.names]

# Without half characters: Arrow has no room for them.
_names = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
_counts = st.none() | st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 2)
_totals = st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2)
_shares = st.none() | st.floats(width=32)
_means = st.none() | st.floats()
_rows = st.tuples(_names, _counts, _totals, _shares, _means, st.none() | st.booleans())
#: Ms; some are equal, and they are in no order.
_times = st.integers(0, 5) | st.integers(-(10**12), 4 * 10**12)
events = st.lists(st.tuples(_times, _rows), max_size=12)


def forms(given: list[Any], folder: Path) -> dict[str, Any]:
    """The same events in other forms."""
    names = ["time", *SCHEMA.names]
    rows = [dict(zip(names, (ts, *row), strict=True)) for ts, row in given]
    table = StreamEvents(SCHEMA, [ts for ts, _ in given], [row for _, row in given]).to_arrow()
    found: dict[str, Any] = {
        "dictionaries": rows,
        "pairs with dictionaries": [(ts, dict(zip(SCHEMA.names, row, strict=True))) for ts, row in given],
        "columns": {name: [row[name] for row in rows] for name in names},
        "Arrow": table,
        "batches": pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=3)),
        "polars": pl.DataFrame(table),
        "pandas": spdist.to_frame(given, SCHEMA),
        "pandas without an index": spdist.to_frame(given, SCHEMA).reset_index(),
    }
    for suffix in (".parquet", ".feather", ".csv"):
        found[suffix] = folder / f"events{suffix}"
        write_file(table, found[suffix])
    return found


@settings(max_examples=60)
@given(events, events)
def test_the_form_of_events_does_not_matter(sent: list[Any], other: list[Any]) -> None:
    expected = spdist.run(TEXT, {"S": sent, "Other": other}, time_unit="ms")
    with tempfile.TemporaryDirectory() as folder:
        others = forms(other, Path(folder))
        (Path(folder) / "s").mkdir()
        for form, given in forms(sent, Path(folder) / "s").items():
            found = spdist.run(TEXT, {"S": given, "Other": others[form]}, time_unit="ms")
            # As texts: NaN equals nothing.
            assert repr(dict(found.events)) == repr(dict(expected.events)), form
            assert repr(found) == repr(expected), form
            assert found.lost == expected.lost


@settings(max_examples=60)
@given(events)
def test_what_came_out_goes_in_again(sent: list[Any]) -> None:
    result = spdist.run(TEXT, {"S": sent}, time_unit="ms")
    same = result["Same"]
    for form in (same, same.to_pandas(), same.to_arrow(), same.to_polars(), list(same)):
        again = spdist.run(TEXT, {"S": form}, time_unit="ms")
        assert repr(again) == repr(result)
        assert repr(again.events["S"]) == repr(same)
