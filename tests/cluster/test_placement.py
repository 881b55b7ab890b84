"""Placement: balanced, spread, sticky, deterministic."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.cluster.leader.placement import (
    PlacedGroup,
    PlacementRequest,
    PlacementWorker,
    allocation_algorithm,
    decide_placement,
)
from spdist.errors import ConfigError


def instances(group: str, parallel: int, receiver: bool = False) -> list[PlacedGroup]:
    return [PlacedGroup(f"{group}-{i + 1}", group, receiver) for i in range(parallel)]


def workers(*ids: str, receiver: bool = False, **more: Any) -> list[PlacementWorker]:
    return [PlacementWorker(id, receiver, **more) for id in ids]


def place(
    groups: list[PlacedGroup],
    there: list[PlacementWorker],
    current: dict[str, str] | None = None,
    rebalance: bool = True,
) -> dict[str, str]:
    return decide_placement(PlacementRequest(groups, there, current or {}, rebalance))


def test_instances_of_a_group_go_round_the_workers() -> None:
    got = place(instances("App-g", 3) + instances("App-h", 2), workers("w1", "w2", "w3"))
    assert {got["App-g-1"], got["App-g-2"], got["App-g-3"]} == {"w1", "w2", "w3"}
    assert got["App-h-1"] != got["App-h-2"]


def test_more_instances_than_workers_share() -> None:
    got = place(instances("App-g", 5), workers("w1", "w2"))
    assert sorted(Counter(got.values()).values()) == [2, 3]


def test_without_workers_everything_waits() -> None:
    assert place(instances("App-g", 2), []) == {}


def test_a_join_moves_only_what_the_newcomer_lacks() -> None:
    groups = instances("App-a", 3) + instances("App-b", 3)
    before = place(groups, workers("w1", "w2"))
    after = place(groups, workers("w1", "w2", "w3"), before)
    moved = [n for n in before if before[n] != after[n]]
    assert len(moved) == 2
    assert {after[n] for n in moved} == {"w3"}


def test_without_rebalancing_a_join_moves_nothing_but_takes_what_is_new() -> None:
    groups = instances("App-a", 3)
    before = place(groups, workers("w1"))
    after = place([*groups, *instances("App-b", 1)], workers("w1", "w2"), before, rebalance=False)
    assert after == before | {"App-b-1": "w2"}


def test_a_leave_moves_only_what_the_leaver_held() -> None:
    groups = instances("App-a", 3) + instances("App-b", 3)
    before = place(groups, workers("w1", "w2", "w3"))
    after = place(groups, workers("w1", "w3"), before)
    assert all(after[n] == w for n, w in before.items() if w != "w2")
    assert set(after) == set(before)


def test_receivers_take_receiver_groups_and_nothing_else() -> None:
    groups = instances("App-a", 2) + instances("App-passthrough", 1, receiver=True)
    got = place(groups, workers("w1") + workers("r1", receiver=True))
    assert got == {"App-a-1": "w1", "App-a-2": "w1", "App-passthrough-1": "r1"}


def test_two_receivers_of_a_group_never_share_a_worker() -> None:
    groups = instances("App-passthrough", 2, receiver=True)
    assert len(place(groups, workers("r1", receiver=True))) == 1
    assert len(set(place(groups, workers("r1", "r2", receiver=True)).values())) == 2


def test_receivers_are_not_balanced_onto_a_worker_that_has_a_sibling() -> None:
    groups = [*instances("A-p", 2, receiver=True), *instances("B-p", 2, receiver=True)]
    current = {"A-p-1": "r1", "A-p-2": "r2", "B-p-1": "r1", "B-p-2": "r2"}
    assert place(groups, workers("r1", "r2", receiver=True), current) == current


def test_a_worker_on_which_it_failed_is_avoided_while_there_is_another() -> None:
    group = PlacedGroup("App-a-1", "App-a", avoid=frozenset({"w1"}))
    others = instances("App-b", 1)
    assert place([group, *others], workers("w1", "w2"), {"App-b-1": "w2"})["App-a-1"] == "w2"
    assert place([group], workers("w1")) == {"App-a-1": "w1"}


def test_nothing_that_runs_is_moved_onto_a_worker_where_it_failed() -> None:
    avoiding = [replace(g, avoid=frozenset({"w2"})) for g in instances("App-a", 4)]
    current = {g.name: "w1" for g in avoiding}
    assert place(avoiding, workers("w1", "w2"), current) == current
    free, *others = avoiding
    assert place([replace(free, avoid=frozenset()), *others], workers("w1", "w2"), current)[free.name] == "w2"


def test_nothing_is_given_to_a_worker_that_is_not_ready_while_another_is() -> None:
    there = [*workers("w1"), *workers("w2", ready=False)]
    groups = instances("App-a", 4)
    assert set(place(groups, there).values()) == {"w1"}
    current = {g.name: "w1" for g in groups}
    assert place(groups, there, current) == current, "and nothing that runs is moved there"
    on_both = {"App-a-1": "w1", "App-a-2": "w2"}
    assert place(groups[:2], there, on_both) == on_both, "what is there already waits with it"
    assert place(groups, workers("w2", ready=False)) == {g.name: "w2" for g in groups}, "there is no other"


def test_what_was_interrupted_goes_to_a_warm_worker_and_stays_there_until_others_are() -> None:
    groups = instances("App-a", 4)
    warm, there = workers("w1", "w2"), [*workers("w1"), *workers("w2", warm=False)]
    assert Counter(place(groups, there).values()) == {"w1": 2, "w2": 2}, "nobody has missed what is new"
    interrupted = [*groups[:3], replace(groups[3], interrupted=True)]
    current = {g.name: "w1" for g in groups[:3]}
    got = place(interrupted, there, current)
    assert set(got.values()) == {"w1"}, "nor is what runs moved"
    assert Counter(place(groups, warm, got).values()) == {"w1": 2, "w2": 2}
    assert place(interrupted, workers("w2", warm=False))[groups[3].name] == "w2", "there is no other"
    drained = [*workers("w1", gives_up=4, cordoned=True), *workers("w2", warm=False)]
    assert set(place(groups, drained, got).values()) == {"w2"}


def test_the_load_is_not_evened_out_while_something_that_was_interrupted_starts() -> None:
    first, second, third = instances("App-a", 3)
    there, current = workers("w1", "w2"), {first.name: "w1", second.name: "w1"}
    starting = replace(third, interrupted=True, avoid=frozenset({"w2"}))
    got = place([first, second, starting], there, current)
    assert set(got.values()) == {"w1"}, "nothing that runs stops meanwhile"
    assert place([first, second, starting], there, got) == got, "nor while it starts"
    runs = replace(starting, interrupted=False)
    assert Counter(place([first, second, runs], there, got).values()) == {"w1": 2, "w2": 1}


def test_of_two_bad_choices_the_worker_that_is_ready_is_the_better_one() -> None:
    group = PlacedGroup("App-a-1", "App-a", avoid=frozenset({"w1"}))
    assert place([group], [*workers("w1"), *workers("w2", ready=False)]) == {"App-a-1": "w1"}


def test_a_worker_is_given_what_its_memory_allows_and_the_rest_waits() -> None:
    groups = instances("App-a", 5)
    got = place(groups, [*workers("w1", room=2), *workers("w2", room=1)])
    assert Counter(got.values()) == {"w1": 2, "w2": 1}
    current = {g.name: "w1" for g in groups}
    assert place(groups, workers("w1", room=0), current) == current, "what runs stays"
    assert Counter(place(groups, [*workers("w1", room=0), *workers("w2", room=1)], current).values())["w2"] == 1


def test_what_a_full_worker_cannot_start_goes_where_there_is_room() -> None:
    runs, waits = instances("App-a", 2)
    waits = replace(waits, waits=True)
    current = {runs.name: "w1", waits.name: "w1"}
    there = [*workers("w1", room=0), *workers("w2", room=1)]
    assert place([runs, waits], there, current, rebalance=False) == {runs.name: "w1", waits.name: "w2"}
    assert place([runs, waits], [*workers("w1", room=0), *workers("w2", room=0)], current, rebalance=False) == current


def test_current_places_on_workers_that_are_gone_do_not_count() -> None:
    assert place(instances("App-a", 1), workers("w1"), {"App-a-1": "ghost"}) == {"App-a-1": "w1"}


@st.composite
def requests(draw: st.DrawFn) -> PlacementRequest:
    groups = [g for i in range(draw(st.integers(0, 4))) for g in instances(f"App-{i}", draw(st.integers(1, 4)))]
    ids = [f"w{i}" for i in range(draw(st.integers(0, 5)))]
    current = {g.name: draw(st.sampled_from([*ids, "ghost"])) for g in groups if draw(st.booleans())}
    return PlacementRequest(draw(st.permutations(groups)), workers(*draw(st.permutations(ids))), current)


def loads(request: PlacementRequest, placement: dict[str, str]) -> list[int]:
    count = Counter(placement.values())
    return [count[w.id] for w in request.workers]


@given(requests())
def test_everything_is_placed_evenly(request: PlacementRequest) -> None:
    got = decide_placement(request)
    if request.workers:
        assert set(got) == {g.name for g in request.groups}
        assert max(loads(request, got)) - min(loads(request, got)) <= 1


@given(requests())
def test_asking_again_moves_nothing_and_order_does_not_matter(request: PlacementRequest) -> None:
    got = decide_placement(request)
    assert decide_placement(PlacementRequest(request.groups, request.workers[::-1], got)) == got
    assert decide_placement(PlacementRequest(request.groups, request.workers[::-1], request.current)) == got


@given(requests())
@settings(deadline=None)
def test_no_balanced_placement_moves_less(request: PlacementRequest) -> None:
    """Each worker keeps what it has up to its share; which workers get the larger shares is chosen for the best."""
    ids = [w.id for w in request.workers]
    if not ids:
        return
    kept = {n: w for n, w in request.current.items() if w in ids}
    moved = sum(decide_placement(request)[n] != w for n, w in kept.items())
    held = Counter(kept.values())
    share, larger = divmod(len(request.groups), len(ids))
    least = min(
        sum(max(0, held[w] - share - (w in chosen)) for w in ids) for chosen in itertools.combinations(ids, larger)
    )
    assert moved == least


@given(requests())
def test_siblings_are_spread_when_all_is_placed_afresh(request: PlacementRequest) -> None:
    got = decide_placement(PlacementRequest(request.groups, request.workers, {}))
    for group, siblings in itertools.groupby(sorted(request.groups, key=lambda g: g.name), key=lambda g: g.group):
        names = [g.name for g in siblings]
        if request.workers:
            together = Counter(got[n] for n in names)
            assert max(together.values()) <= -(-len(names) // len(request.workers)), group


@st.composite
def troubled(draw: st.DrawFn) -> PlacementRequest:
    """Requests with workers that are full or not ready, and groups that failed on some."""
    request = draw(requests())
    ids = [w.id for w in request.workers]
    there = [
        replace(w, ready=draw(st.booleans()), warm=draw(st.booleans()), room=draw(st.none() | st.integers(0, 3)))
        for w in request.workers
    ]
    avoid = st.frozensets(st.sampled_from(ids)) if ids else st.just(frozenset())
    groups = [
        replace(g, avoid=draw(avoid), waits=draw(st.booleans()), interrupted=draw(st.booleans()))
        for g in request.groups
    ]
    return PlacementRequest(groups, there, request.current, draw(st.booleans()))


@given(troubled())
def test_what_runs_is_moved_only_to_where_it_will_run_well(request: PlacementRequest) -> None:
    got = decide_placement(request)
    there = {w.id: w for w in request.workers}
    arrived: Counter[str] = Counter()
    for group in request.groups:
        before, after = request.current.get(group.name), got.get(group.name)
        if after is not None and after != before:
            arrived[after] += 1
        if before in there and after != before:
            assert after is not None, "what has a place keeps one"
            assert there[after].ready
            assert there[after].warm or group.waits
            assert after not in group.avoid
        elif after is not None and before not in there and not there[after].ready:
            assert not any(w.ready and (w.room is None or w.room > arrived[w.id]) for w in request.workers)
    for worker in request.workers:
        assert worker.room is None or arrived[worker.id] <= worker.room


def test_round_robin_is_the_default_algorithm() -> None:
    assert (
        allocation_algorithm(None) is allocation_algorithm("") is allocation_algorithm("roundRobin") is decide_placement
    )


def test_an_algorithm_is_found_by_its_path() -> None:
    assert allocation_algorithm("spdist.cluster.leader.placement.decide_placement") is decide_placement


@pytest.mark.parametrize(
    "name", ["nowhere", "no.such.module", "spdist.cluster.leader.placement.nothing", "spdist.errors._CODES"]
)
def test_an_algorithm_that_cannot_be_used_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        allocation_algorithm(name)
