"""Workers of an engine that come as one, whichever of them are lost on the way."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ordbm.engines.interface import LostError, Seat, WorkerEngine
from ordbm.errors import EngineError
from ordbm.runtime.interruption import safe_point
from ordbm.runtime.threads import HEARD_WITHIN
from ordbm.training.loop import LOG

TOLD_AFTER = 30  # seconds in which workers of a cluster that is not full have begun
MOST_LOSSES = 10  # of one worker in one call: then it is no accident
KEPT_AFTER = 20  # times what keeping a state took: how long to wait before the next


class Kept(NamedTuple):
    """A worker's state after so many epochs; None before the first."""

    epochs: int
    state: Any


class Post:
    """A place in the crew: what its worker begins with, and where another would go on."""

    def __init__(self, beginning: tuple[Any, ...], team: int) -> None:
        self.beginning, self.team = beginning, team
        self.seat: Seat | None = None  # where a team adds up what its workers have
        self.worker: Any = None
        self.preparing: list[Any] = []  # calls before the first that somebody waits for
        self.given = Kept(0, None)  # from a checkpoint, held where the crew is led
        self.kept = self.given  # by the worker's own node, which may be lost too


class Crew:
    """Workers of one kind that learn epoch by epoch, in teams that are apart from each other.

    A worker has `begin(*beginning, seat)`, `epoch(number)`, `epochs_done()`, `kept_state()` and
    `restore(state, epochs)`; what a team learns depends on these calls alone. So one that has lost
    a worker is begun anew from the last state that is at hand, the epochs since then are learnt
    again, and nobody sees a difference. The seat is None for whoever is a team alone.
    """

    def __init__(
        self,
        engine: WorkerEngine,
        kind: type,
        threads: int,
        beginnings: Sequence[tuple[Any, ...]],
        team_size: int = 1,
    ) -> None:
        """`beginnings` are those of all workers, team by team."""
        self.engine, self.kind, self.threads = engine, kind, threads
        self.posts = [
            Post(beginning, number // team_size) for number, beginning in enumerate(beginnings)
        ]
        self.epochs = 0  # that all have learnt
        self._kept_at, self._cost = time.perf_counter(), 0.0
        for team in range(len(self.posts) // team_size):
            self._send_out(self._team(team))
        self.ask("epochs_done", during=_patience_told())

    def learn(self, number: int, during: Callable[[], object]) -> list[Any]:
        """What `epoch(number)` answers at each; `during` is called now and then."""
        found = self.ask("epoch", number, during=during)
        self.epochs = number + 1
        if time.perf_counter() - self._kept_at >= KEPT_AFTER * self._cost:
            self._keep()
        return found

    def ask(
        self, method: str, *arguments: Any, during: Callable[[], object] | None = None
    ) -> list[Any]:
        """What each answers, in order."""
        return self._gathered(
            lambda _, post: self.engine.call(post.worker, method, *arguments),
            self.engine.value,
            during,
        )

    def restore(self, states: Sequence[Any], epochs: int) -> None:
        """Have each go on from a state after so many epochs."""
        self.epochs = epochs
        for post, state in zip(self.posts, states, strict=True):
            post.given = post.kept = Kept(epochs, self.engine.put(state))

        def restored(_: int, post: Post) -> Any:
            return self.engine.call(post.worker, "restore", post.kept.state, epochs)

        self._gathered(restored, self.engine.value)

    def peek(self, method: str) -> list[Any]:
        """What stands for the answer of each while it is at work."""
        return [self.engine.call(post.worker, method, aside=True) for post in self.posts]

    def dismiss(self) -> None:
        """End all workers."""
        for team in {post.team for post in self.posts if post.worker is not None}:
            self._end(self._team(team))

    def _keep(self) -> None:
        """Have the state of each kept at its node, where it costs no message."""
        began = time.perf_counter()

        def state_there(result: Any) -> Any:
            self.engine.value(result[1])
            return result[0]

        states = self._gathered(
            lambda _, post: self.engine.parts(post.worker, "kept_state", n=2), state_there
        )
        for post, state in zip(self.posts, states, strict=True):
            post.kept = Kept(self.epochs, state)
        self._kept_at = time.perf_counter()
        self._cost = self._kept_at - began

    def _gathered(
        self,
        call: Callable[[int, Post], Any],
        value: Callable[[Any], Any],
        during: Callable[[], object] | None = None,
    ) -> list[Any]:
        """The value of a call at each; whoever is lost is replaced and called again."""
        called = {n: call(n, post) for n, post in enumerate(self.posts)}
        losses: Counter[int] = Counter()  # by team
        found: dict[int, Any] = {}
        while called:
            safe_point()
            marks = {n: _mark(one) for n, one in called.items()}
            there = self.engine.wait(list(marks.values()), HEARD_WITHIN)
            if during is not None:
                during()
            for number in [n for n, mark in marks.items() if any(mark is one for one in there)]:
                post = self.posts[number]
                if marks[number] is not _mark(called[number]):
                    continue  # its team was replaced meanwhile
                try:
                    for one in post.preparing:  # done before, or failed
                        self.engine.value(one)
                    post.preparing = []
                    found[number] = value(called[number])
                    del called[number]
                except LostError as error:
                    losses[post.team] += 1
                    self._replace(post.team, error, losses[post.team])
                    for n, other in enumerate(self.posts):
                        if other.team == post.team:
                            found.pop(n, None)
                            called[n] = call(n, other)
        return [found[number] for number in range(len(self.posts))]

    def _team(self, number: int) -> list[Post]:
        return [post for post in self.posts if post.team == number]

    def _replace(self, number: int, error: LostError, losses: int) -> None:
        """Put other workers in the place of a team's, to the end of the same epoch."""
        if losses > MOST_LOSSES:
            raise EngineError(
                f"a worker was lost {losses} times in epoch {self.epochs + 1}: {error}"
            ) from error
        LOG.warning("a worker was lost in epoch %d and is replaced: %s", self.epochs + 1, error)
        team = self._team(number)
        self._end(team)
        if losses > 1:  # perhaps what was kept is gone with its node
            for post in team:
                post.kept = post.given
        self._send_out(team)

    def _send_out(self, team: Sequence[Post]) -> None:
        """Workers that begin, restore what is kept, and learn the epochs since then."""
        seats = self.engine.seats(len(team)) if len(team) > 1 else [None]
        for post, seat in zip(team, seats, strict=True):
            post.seat = seat
            post.worker = self.engine.start(self.kind, self.threads)
            calls: list[tuple[Any, ...]] = [("begin", *post.beginning, seat)]
            if post.kept.state is not None:
                calls.append(("restore", post.kept.state, post.kept.epochs))
            calls += [("epoch", number) for number in range(post.kept.epochs, self.epochs)]
            post.preparing = [self.engine.call(post.worker, *one) for one in calls]

    def _end(self, team: Sequence[Post]) -> None:
        """End all workers of a team, though they may wait for each other."""
        seats = [post.seat for post in team if post.seat is not None]
        for post in team:
            self.engine.stop(post.worker)
            post.worker = post.seat = None
        if seats:
            self.engine.leave(seats)


def _mark(called: Any) -> Any:
    """What is waited for: of several results, the last."""
    return called[-1] if isinstance(called, list) else called


def _patience_told() -> Callable[[], object]:
    """What to call while workers begin: it says once that it takes long."""
    told_at = time.perf_counter() + TOLD_AFTER

    def tell() -> None:
        nonlocal told_at
        if time.perf_counter() > told_at:
            told_at = float("inf")
            LOG.warning("waiting for workers to begin: the cluster may have no room for them yet")

    return tell
