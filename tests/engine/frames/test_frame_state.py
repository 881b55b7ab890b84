"""A state is of use to one query, one app and one checkpoint: whatever does not belong together is found first."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spdist.engine.frames.fitting import FrameRequest
from spdist.engine.frames.plan import FramePlan
from spdist.engine.frames.shards import FrameShards
from spdist.engine.frames.state import FrameDirectory, QueryStart
from spdist.engine.shards.shard import SnapshotPolicy
from spdist.errors import EngineError, StateError
from tests.engine.frames.pipeline import Given, came, order_of, planned, routed

TEXT = """
@app:name('Sums') @OnError(action='STREAM') define stream S (k string, v long);
partition with (k of S) begin from S select k, sum(v) as total insert into Out; end;
"""


@pytest.fixture(autouse=True)
def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _handle: None)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "metadata").write_text('{"id":"q"}')
    return tmp_path


def plan(text: str = TEXT, shards: int = 2, outputs: tuple[str, ...] = ("Out",)) -> FramePlan:
    return planned(text, ("S",), outputs, shards)


SUMS = plan()


def rows(batch: int) -> list[Given]:
    return [(0, 1000 * batch + n, n, (f"k{n}", 1)) for n in range(4)]


def run(
    home: FrameDirectory, plan: FramePlan, batch: int, query: str = "q", run: str = "r", kept: FrameShards | None = None
) -> list[Any]:
    start = QueryStart(query, run, batch)
    kept = kept or FrameShards(plan, home, start)
    batches = routed(plan, rows(batch), random.Random(0))
    return list(kept.process(start, order_of(plan), batches))


def test_a_repeated_batch_gives_the_same_rows_with_the_same_ids_whoever_repeats_it(checkpoint: Path) -> None:
    made, home = plan(), FrameDirectory(checkpoint, "Sums")
    first = run(home, made, 0)
    assert run(home, made, 0) == run(home, replace(made, token="again"), 0, run="r2") == first
    assert [row for _, row in sorted(came(made, run(home, made, 1))["Out"])] == [(f"k{n}", 2) for n in range(4)]


def test_rows_come_in_another_order_the_second_time_and_the_first_one_counts(checkpoint: Path) -> None:
    text, home = (
        "define stream S (k string, v long); from S select k, v insert into Out;",
        FrameDirectory(checkpoint, "a"),
    )
    made = plan(text, shards=1)
    start, one = QueryStart("q", "r", 0), [(0, 5, 0, ("a", 1)), (0, 5, 0, ("b", 2))]
    told = [
        list(FrameShards(made, home, start).process(start, (), routed(made, given, random.Random(0))))
        for given in (one, one[::-1])
    ]
    assert told[0] == told[1]
    assert told[0][0]["k"].to_pylist() == ["a", "b"]


def test_a_batch_without_rows_changes_nothing(checkpoint: Path) -> None:
    made, home = plan(), FrameDirectory(checkpoint, "Sums")
    run(home, made, 0)
    before = sorted(path.name for path in home.directory.rglob("*"))
    start = QueryStart("q", "r", 1)
    assert list(FrameShards(made, home, start).process(start, order_of(made), [])) == []
    assert sorted(path.name for path in home.directory.rglob("*")) == before
    assert len(run(home, made, 2)) == len(run(home, made, 2))


def test_old_snapshots_and_segments_go(checkpoint: Path) -> None:
    made, home = plan(shards=1), FrameDirectory(checkpoint, "Sums")
    kept = FrameShards(made, home, QueryStart("q", "r", 0), SnapshotPolicy(segments=3, pause=0))
    for batch in range(20):
        run(home, made, batch, kept=kept)
    store = home.store(0, 1)
    assert len(store.numbers("segment")) < 10
    assert [row for _, row in came(made, run(home, made, 20, run="r2"))["Out"]] == [(f"k{n}", 21) for n in range(4)]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (plan(TEXT.replace("sum(v)", "count()")), "was made by another text of the app"),
        (plan(shards=3), r"is in 2 shards, not in 3\n.*shards=2"),
        (plan(outputs=("Out", "!S")), "was made with the outputs Out, not with Out, !S"),
        (planned(TEXT, ("S", "Out"), ("Out",), 1), "was made with the streams S, not with S, Out"),
    ],
)
def test_the_state_of_another_plan_is_refused_by_the_driver_and_by_tasks(
    checkpoint: Path, other: FramePlan, said: str
) -> None:
    home = FrameDirectory(checkpoint, "Sums")
    home.check(other)
    run(home, SUMS, 0)
    home.check(plan(TEXT.replace("select", "\nselect  ")))
    assert home.shards() == 2
    with pytest.raises(StateError, match=said):
        home.check(other)
    with pytest.raises(StateError, match=said):
        run(home, other, 1, run="the next start")


def test_a_state_whose_checkpoint_was_removed_is_refused(checkpoint: Path) -> None:
    home = FrameDirectory(checkpoint, "Sums")
    run(home, SUMS, 0)
    (checkpoint / "metadata").write_text('{"id":"another"}')
    with pytest.raises(StateError, match=r"belongs to the query q, not to another: its checkpoint was\s+removed"):
        run(home, SUMS, 0, query="another")
    (home.directory / "query").unlink()  # it was killed with its first batch
    with pytest.raises(StateError, match=r"belongs to the query q, not to another"):
        run(home, SUMS, 0, query="another")


def test_a_checkpoint_whose_state_was_removed_is_refused(checkpoint: Path) -> None:
    home = FrameDirectory(checkpoint, "Sums")
    run(home, SUMS, 0)
    shutil.rmtree(home.store(1, 2).directory)
    with pytest.raises(StateError, match=r"shard-2-of-2 is missing"):
        run(home, SUMS, 1)
    shutil.rmtree(home.directory)
    with pytest.raises(StateError, match=r"has come to batch 1, but there is no state"):
        run(home, SUMS, 1)


def test_an_older_checkpoint_is_refused(checkpoint: Path) -> None:
    home = FrameDirectory(checkpoint, "Sums")
    for batch in range(3):
        run(home, SUMS, batch)
    with pytest.raises(StateError, match=r"is at batch 1, the state in .* at batch\s+2: an older checkpoint"):
        run(home, SUMS, 1)


def test_another_checkpoint_than_that_of_the_query_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"holds no checkpoint .*\n.*checkpointLocation"):
        run(FrameDirectory(tmp_path, "Sums"), SUMS, 0)
    (tmp_path / "metadata").write_text('{"id":"another"}')
    with pytest.raises(StateError, match=r"belongs to another query, not that of the running one \(q\)"):
        run(FrameDirectory(tmp_path, "Sums"), SUMS, 0)


def test_two_transformations_of_a_query_do_not_share_a_state(checkpoint: Path) -> None:
    home = FrameDirectory(checkpoint, "Sums")
    run(home, SUMS, 0)
    with pytest.raises(StateError, match=r"two transformations of one query have the name 'Sums'.*\n.*name='first'"):
        run(home, plan(), 0)
    run(FrameDirectory(checkpoint, "other"), plan(), 0)
    run(home, plan(), 0, run="the next start")


def test_damage_is_noticed(checkpoint: Path) -> None:
    home = FrameDirectory(checkpoint, "Sums")
    run(home, SUMS, 0)
    place = home.directory / "query"
    place.write_bytes(place.read_bytes().replace(b'"q"', b'"p"'))
    with pytest.raises(StateError, match="query"):
        home.check(SUMS)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, r"'App' keeps state .*\n.*checkpoint='DIR'.*checkpointLocation"),
        ("s3://bucket/ck", r"'s3://bucket/ck' is no directory"),
        ("hdfs:/ck", "is no directory"),
    ],
)
def test_a_checkpoint_is_a_directory(given: str | None, said: str) -> None:
    with pytest.raises(EngineError, match=said):
        FrameDirectory.of(FrameRequest(checkpoint=given), "App")


def test_a_checkpoint_may_be_a_path_or_a_url_of_a_file(tmp_path: Path) -> None:
    urls = (f"file:{tmp_path}", tmp_path.as_uri(), tmp_path, str(tmp_path))
    homes = {FrameDirectory.of(FrameRequest(checkpoint=one), "a/b").directory for one in urls}
    assert homes == {tmp_path / "spdist" / "a%2Fb"}
    assert FrameDirectory(tmp_path, "..").directory == tmp_path / "spdist" / "%2E%2E"
    assert FrameDirectory.of(FrameRequest(checkpoint="ck"), "a", tmp_path).checkpoint == tmp_path / "ck"
