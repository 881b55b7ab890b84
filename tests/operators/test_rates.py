"""Rate limits where they mean more than the engine does; what both mean alike is in ``tests/cases/rates.jsonl``."""

from __future__ import annotations

import pytest

from spdist.engine.local.app import run

STREAM = "define stream S (k string, v int);"
EVENTS = [(1000 + i, (key, i)) for i, key in enumerate("aabab")]


def values(query: str, until: int | None = None) -> list[int]:
    return [row[-1] for _, row in run(STREAM + query, {"S": EVENTS}, until)["Out"]]


@pytest.mark.parametrize("group", ["", " group by k"])
def test_first_of_every_single_event_is_every_event(group: str) -> None:
    assert values(f"from S select k, v{group} output first every 1 events insert into Out;") == [0, 1, 2, 3, 4]


def test_the_sign_that_resets_totals_is_not_counted() -> None:
    assert values("from S#window.lengthBatch(2) select k, v output first every 2 events insert into Out;") == [0, 2]


def test_the_first_in_time_of_a_batch_is_its_first_result() -> None:
    query = "from S#window.lengthBatch(2) select k, v output first every 2 milliseconds insert into Out;"
    assert values(query) == [0, 2]


def test_a_snapshot_knows_rows_apart_by_all_that_is_no_aggregate() -> None:
    query = (
        "from S#window.length(2) select k, v, sum(v) as t, count() as c "
        "output snapshot every 10 milliseconds insert into Out;"
    )
    app = STREAM + query
    assert run(app, {"S": EVENTS}, 1010)["Out"] == [(1003, ("a", 3, 7, 2)), (1004, ("b", 4, 7, 2))]


def test_a_snapshot_compares_nulls_like_values() -> None:
    events = [(1000, (None, 1)), (1001, ("b", 2)), (1002, ("c", 3))]
    query = "from S#window.length(2) select k, sum(v) as t output snapshot every 10 milliseconds insert into Out;"
    assert run(STREAM + query, {"S": events}, 1010)["Out"] == [(1001, ("b", 5)), (1002, ("c", 5))]
