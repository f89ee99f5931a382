"""Ctrl-C: noted at once, acted on at the next safe point; the second one ends the work at once.

An exception that is raised wherever the interpreter happens to be may be lost: an import takes it
for a failure of its own, a finaliser prints and drops it, a thread is left behind. So the handler
only counts, and work asks at points where it can end well whether it is to. What was counted and
not acted on is raised at the next point, whoever swallowed the one before.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType


class Work:
    """Work that may have to end: part of other work, if any, and ending with it."""

    def __init__(self, whole: Work | None = None) -> None:
        self._whole, self._ended = whole, False

    def end(self) -> None:
        """Let it end at its next safe point."""
        self._ended = True

    @property
    def is_to_end(self) -> bool:
        return self._ended or (self._whole is not None and self._whole.is_to_end)

    def begin(self) -> None:
        """From here on, safe points of this thread are those of this work."""
        _under_way.set(self)


class Listener(Work):
    """Work of the main thread that counts signals instead of being broken off by them."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = 0  # times Ctrl-C
        self.taken = 0  # of these, how often somebody has acted on it
        self.is_usable: Callable[[], bool] | None = None  # so that the first one may wait
        self.waits = True  # for a safe point
        self.exit_status = 128 + signal.SIGINT  # as shells report a process that it ended

    def note(self, number: int, _: FrameType | None) -> None:
        """Handle a signal; SIGTERM is no Ctrl-C: it keeps nothing, and may come twice."""
        if number == signal.SIGTERM:
            self.exit_status = 128 + number
            self.end()
        else:
            self.heard += 1
        if self.heard > 1 or not self.waits:
            raise KeyboardInterrupt

    @property
    def is_to_end(self) -> bool:
        usable = self.is_usable is not None and self.is_usable()
        return super().is_to_end or self.heard > max(self.taken, int(usable))

    def take(self) -> None:
        """Say that what was heard has been acted on."""
        self.taken = self.heard


_under_way: ContextVar[Work | None] = ContextVar("work under way", default=None)


def part_of_work() -> Work:
    """A part of this thread's work, to begin on another thread."""
    return Work(_under_way.get())


def safe_point() -> None:
    """Here work can end well: a `KeyboardInterrupt` if it is to."""
    work = _under_way.get()
    if work is not None and work.is_to_end:
        raise KeyboardInterrupt


@contextmanager
def listening() -> Iterator[Listener]:
    """Within it, Ctrl-C is raised at safe points, the last of them its end.

    This takes the place of Python's own handler only. Another one is left alone, and so is every
    thread but the main one: the `Listener` then hears nothing, unless one around it does.
    """
    outer = _under_way.get()
    main = threading.current_thread() is threading.main_thread()
    listener = outer if main and isinstance(outer, Listener) else Listener()
    ours = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, listener.note)
        token = _under_way.set(listener)
    try:
        yield listener
    except Exception:
        if not listener.is_to_end:
            raise
        # What fails now does so because of it: some libraries give up, in words of their own.
        raise KeyboardInterrupt from None
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _under_way.reset(token)
    if listener.is_to_end:
        raise KeyboardInterrupt


def listen_from_now_on() -> None:
    """For a process of our own: to its end, Ctrl-C and SIGTERM are raised at safe points.

    What was ignored when it started, as in the background of some shells, stays ignored.
    """
    listener = Listener()
    for number, default in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGTERM, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is default:
            signal.signal(number, listener.note)
    listener.begin()


@contextmanager
def first_ctrl_c_noted(is_usable: Callable[[], bool]) -> Iterator[Callable[[], bool]]:
    """Within it, the first Ctrl-C is no reason to end if it `is_usable`; yields whether it came.

    Otherwise, and the second time, it is a `KeyboardInterrupt` as ever.
    """
    with listening() as listener:
        before, listener.is_usable = listener.is_usable, is_usable
        taken = listener.taken
        try:
            yield lambda: listener.heard > taken
            safe_point()
            listener.take()
        finally:
            listener.is_usable = before


@contextmanager
def raised_at_once() -> Iterator[None]:
    """Within it, Ctrl-C and SIGTERM wait for no safe point: for work that waits, for a network."""
    with listening() as listener:
        before, listener.waits = listener.waits, False
        try:
            safe_point()
            yield
        finally:
            listener.waits = before
