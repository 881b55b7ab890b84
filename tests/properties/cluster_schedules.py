"""Schedules of the simulated cluster: faults and wishes at random, all from the seed of the world alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.properties.cluster_simulation import World

__all__ = ["APPS", "lost_leaders", "make_world", "random_schedule", "run_schedule", "troubled_workers"]

APPS = ("Alpha", "Beta", "Gamma")
_Thing = tuple[str, Callable[[], None]]


def make_world(kind: type[World], seed: int) -> World:
    """Return a world of its kind: two or three managers, two to four workers."""
    return kind(seed, managers_count=2 + seed % 2, workers_count=2 + seed % 3)


def run_schedule(kind: type[World], seed: int) -> World:
    """Run the schedule of a seed: every other one is of faults of all kinds, the others each try one thing harder."""
    world = make_world(kind, seed)
    (random_schedule, troubled_workers, random_schedule, lost_leaders)[seed // 6 % 4](world)
    return world


def random_schedule(world: World, steps: int = 25) -> None:
    """Let a random sequence of faults and wishes happen to a world, then see that it recovers."""
    rng = world.rng
    managers, workers = list(world.managers.values()), list(world.workers.values())
    clocks = ["database", *world.managers, *world.workers]
    things: list[_Thing] = [
        ("deploy", lambda: world.deploy(rng.choice(APPS), rng.randint(1, 4))),
        ("deploy", lambda: world.deploy(rng.choice(APPS), rng.randint(1, 4))),
        ("undeploy", lambda: world.undeploy(rng.choice(APPS))),
        ("manager crashes or starts", lambda: world.toggle(rng.choice(managers))),
        ("leader crashes", lambda: world.toggle(world.leader() or rng.choice(managers))),
        ("worker crashes or starts", lambda: world.toggle(rng.choice(workers))),
        ("link is cut or mended", lambda: world.toggle_link(*rng.choice(world.links()))),
        ("worker leaves", lambda: world.leave(rng.choice(workers))),
        ("database is lost or back", lambda: setattr(world.database, "up", not world.database.up)),
        ("cordon", lambda: world.cordon(rng.choice(list(world.workers)), rng.choice((True, False, None)))),
        ("group fails", world.fail_group),
        ("machine stands still", lambda: world.stand_still(rng.choice(workers), rng.randint(50, 1_500))),
        ("leader stands still", lambda: world.stand_still(world.leader() or managers[0], rng.randint(50, 1_500))),
        ("clock jumps", lambda: world.jump(rng.choice(clocks), rng.choice((-300, -50, 50, 1_000, 3_600_000)))),
        ("clock jumps", lambda: world.jump(rng.choice(clocks[1:]), -3_600_000)),
        ("faults end", world.heal),
    ]
    world.late = rng.choice((0.03, 0.03, 0.2))
    world.advance(300)
    for app in APPS:
        world.deploy(app, 1)
    world.advance(400)
    for _ in range(steps):
        _one_of(things, world)
        world.calm = False
        world.advance(rng.choice((10, 50, 150, 400, 900)))
    world.check_recovers()


def _one_of(things: Sequence[_Thing], world: World) -> None:
    name, thing = world.rng.choice(things)
    world.tried[name] += 1
    thing()


def troubled_workers(world: World, rounds: int = 6) -> None:
    """Let workers be cut off, stand still, end and come back while they are probed, or lose groups to others."""
    world.late = world.rng.choice((0.03, 0.2))
    world.advance(1_500)
    world.deploy("Alpha", 1)
    for _ in range(rounds):
        world.calm = False
        world.advance(800)
        worker = world.rng.choice([w for w in world.workers.values() if w.name != "twin"])
        trouble = world.rng.choice(("worker is cut off", "worker restarts", "machine stands still", "late moves"))
        world.tried[trouble] += 1
        if trouble == "worker is cut off":
            links = {(worker.name, manager) for manager in world.managers}
            world.cut |= links
            world.advance(world.rng.randint(150, 900))
            world.cut -= links
        elif trouble == "worker restarts":
            worker.crash()
            world.advance(world.rng.randint(100, 260))
            worker.start()
        elif trouble == "machine stands still":
            world.stand_still(worker, world.rng.randint(150, 900))
        else:
            usual, world.late = world.late, 0.4
            world.cordon(worker.name, True)
            world.advance(world.rng.randint(100, 600))
            world.cordon(worker.name, None)
            world.late = usual
    world.check_recovers()


def lost_leaders(world: World, steps: int = 24) -> None:
    """Let leaders end one after the other, immediately succeeded by others, who do not hear of all workers soon.

    What a new leader does not yet know of is what it may start a second time.
    """
    rng = world.rng
    workers = list(world.workers.values())

    def resign() -> None:
        leader = world.leader()
        if leader is not None:
            for worker in rng.sample(workers, rng.randint(0, 2)):
                world.cut |= {(worker.name, manager) for manager in world.managers}
            world.resign(leader)
            world.after(rng.randint(1, 200), lambda: None if leader.alive else leader.start())

    def change_a_worker() -> None:
        world.toggle(rng.choice(workers))

    def restart_a_worker() -> None:
        worker = rng.choice(workers)
        worker.crash()
        worker.start()

    def cut_the_leader_off() -> None:
        leader = world.leader()
        if leader is not None:
            world.cut.add((leader.name, "database"))

    def cut_the_next_off() -> None:
        resign()
        for _ in range(300):
            if world.leader() is not None:
                break
            world.advance(1)
        cut_the_leader_off()

    things: list[_Thing] = [
        ("leader resigns", resign),
        ("leader resigns, the next one is cut off the database", cut_the_next_off),
        ("leader resigns", resign),
        ("worker crashes or starts", change_a_worker),
        ("worker crashes or starts", change_a_worker),
        ("worker restarts", restart_a_worker),
        ("leader is cut off the database", cut_the_leader_off),
        ("links are mended", world.cut.clear),
        ("deploy", lambda: world.deploy(rng.choice(APPS), rng.randint(1, 4))),
        ("cordon", lambda: world.cordon(rng.choice(list(world.workers)), rng.choice((True, False, None)))),
    ]
    world.late = rng.choice((0.03, 0.3))
    for worker in rng.sample(workers[:-1], 1):
        worker.crash()
    world.advance(400)
    world.deploy("Alpha", 2)
    for _ in range(steps):
        _one_of(things, world)
        world.calm = rng.random() < 0.7
        world.advance(rng.choice((1, 5, 20, 60, 150, 400)))
    world.check_recovers()
