"""Workers of an engine that come as one, whichever of them are lost on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ordbm.engines.interface import LostError, WorkerEngine
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

    def __init__(self, beginning: tuple[Any, ...]) -> None:
        self.beginning = beginning
        self.worker: Any = None
        self.preparing: list[Any] = []  # calls before the first that somebody waits for
        self.given = Kept(0, None)  # from a checkpoint, held where the crew is led
        self.kept = self.given  # by the worker's own node, which may be lost too


class Crew:
    """Workers of one kind that learn epoch by epoch, each apart from the others.

    A worker has `begin(*beginning)`, `epoch(number)`, `epochs_done()`, `kept_state()` and
    `restore(state, epochs)`; what it learns depends on these calls alone. So one that is lost is
    begun anew from the last state that is at hand, the epochs since then are learnt again, and
    nobody sees a difference.
    """

    def __init__(
        self, engine: WorkerEngine, kind: type, threads: int, beginnings: Sequence[tuple[Any, ...]]
    ) -> None:
        self.engine, self.kind, self.threads = engine, kind, threads
        self.posts = [Post(beginning) for beginning in beginnings]
        self.epochs = 0  # that all have learnt
        self._kept_at, self._cost = time.perf_counter(), 0.0
        for post in self.posts:
            self._send_out(post)
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
        for post in self.posts:
            if post.worker is not None:
                self.engine.stop(post.worker)
                post.worker = None

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
        losses = dict.fromkeys(called, 0)
        found: dict[int, Any] = {}
        while called:
            safe_point()
            marks = {n: one[-1] if isinstance(one, list) else one for n, one in called.items()}
            there = self.engine.wait(list(marks.values()), HEARD_WITHIN)
            if during is not None:
                during()
            for number in [n for n, mark in marks.items() if any(mark is one for one in there)]:
                post = self.posts[number]
                try:
                    for one in post.preparing:  # done before, or failed
                        self.engine.value(one)
                    post.preparing = []
                    found[number] = value(called[number])
                    del called[number]
                except LostError as error:
                    losses[number] += 1
                    self._replace(post, error, losses[number])
                    called[number] = call(number, post)
        return [found[number] for number in range(len(self.posts))]

    def _replace(self, post: Post, error: LostError, losses: int) -> None:
        """Put another worker in its place, to the end of the same epoch."""
        if losses > MOST_LOSSES:
            raise EngineError(
                f"a worker was lost {losses} times in epoch {self.epochs + 1}: {error}"
            ) from error
        LOG.warning("a worker was lost in epoch %d and is replaced: %s", self.epochs + 1, error)
        self.engine.stop(post.worker)
        if losses > 1:  # perhaps what was kept is gone with its node
            post.kept = post.given
        self._send_out(post)

    def _send_out(self, post: Post) -> None:
        """A worker that begins, restores what is kept, and learns the epochs since then."""
        post.worker = self.engine.start(self.kind, self.threads)
        calls: list[tuple[Any, ...]] = [("begin", *post.beginning)]
        if post.kept.state is not None:
            calls.append(("restore", post.kept.state, post.kept.epochs))
        calls += [("epoch", number) for number in range(post.kept.epochs, self.epochs)]
        post.preparing = [self.engine.call(post.worker, *one) for one in calls]


def _patience_told() -> Callable[[], object]:
    """What to call while workers begin: it says once that it takes long."""
    told_at = time.perf_counter() + TOLD_AFTER

    def tell() -> None:
        nonlocal told_at
        if time.perf_counter() > told_at:
            told_at = float("inf")
            LOG.warning("waiting for workers to begin: the cluster may have no room for them yet")

    return tell
