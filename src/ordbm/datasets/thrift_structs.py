"""Structs of Thrift's compact protocol, in which parquet files describe themselves.

Only numbers, structs and lists are kept. What readers might understand in different ways is an
error: a field twice, a number of a field beyond 16 bits, a list of other things than it should be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_MOST_NESTED = 16  # structs and lists in each other
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = (
    0, 1, 2, 3, 7, 8, 9, 10, 11, 12,
)  # fmt: skip
INTEGERS, TEXTS, STRUCTS = (4, 5, 6), (_BINARY,), (_STRUCT,)  # kinds of elements; of 16 to 64 bits


class StructShape(NamedTuple):
    """What is known of a struct: the elements of its lists, and the shapes of what is in it."""

    lists: Mapping[int, tuple[int, ...]] = {}
    inside: Mapping[int, StructShape] = {}


PLAIN_STRUCT = StructShape()


class StructReader:
    """Reads structs; `on_struct` is called before each, and may raise."""

    def __init__(self, content: Any, on_struct: Callable[[], None] = lambda: None) -> None:
        self._content, self._on_struct = content, on_struct
        self.at = 0

    def struct(self, shape: StructShape, depth: int = 0) -> dict[int, Any]:
        """The fields of the struct here, by their numbers."""
        self._on_struct()
        found: dict[int, Any] = {}
        number = 0
        while True:
            head = self._byte()
            kind = head & 15
            if kind == _STOP:
                return found
            number = number + (head >> 4) if head >> 4 else self._integer()
            if number in found or not 0 < number < 2**15:
                raise ValueError("a field is there twice, or has no number")
            known = _LIST if number in shape.lists else _STRUCT if number in shape.inside else kind
            if kind != known:
                raise ValueError("a field holds something else than it should")
            inside = shape.inside.get(number, PLAIN_STRUCT)
            if kind in (_TRUE, _FALSE):
                found[number] = kind == _TRUE
            elif kind in (_LIST, _SET):
                found[number] = self._list(shape.lists.get(number), inside, depth)
            else:
                found[number] = self._value(kind, inside, depth)

    def _value(self, kind: int, shape: StructShape, depth: int) -> Any:
        if depth > _MOST_NESTED:
            raise ValueError("structs are nested too deeply")
        if kind in INTEGERS:
            return self._integer()
        if kind == _STRUCT:
            return self.struct(shape, depth + 1)
        if kind in (_LIST, _SET):
            return self._list(None, shape, depth + 1)
        if kind == _BINARY:
            self._skip(self._varint())
        elif kind in (_TRUE, _FALSE, _BYTE, _DOUBLE):
            self._skip(8 if kind == _DOUBLE else 1)
        elif kind == _MAP:
            size = self._varint()
            kinds = self._byte() if size else 0
            for _ in range(size):
                self._value(kinds >> 4, PLAIN_STRUCT, depth + 1)
                self._value(kinds & 15, PLAIN_STRUCT, depth + 1)
        else:
            raise ValueError("a value is of an unknown kind")
        return None

    def _list(self, wanted: tuple[int, ...] | None, shape: StructShape, depth: int) -> list[Any]:
        head = self._byte()
        size = head >> 4 if head >> 4 < 15 else self._varint()
        if wanted is not None and size and head & 15 not in wanted:
            raise ValueError("a list holds something else than it should")
        return [self._value(head & 15, shape, depth + 1) for _ in range(size)]

    def _integer(self) -> int:
        """A signed integer, zigzag-encoded."""
        found = self._varint()
        return (found >> 1) ^ -(found & 1)

    def _varint(self) -> int:
        found = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                break
        else:
            raise ValueError("a number is beyond 64 bits")
        return found

    def _byte(self) -> int:
        self._skip(1)
        return self._content[self.at - 1]

    def _skip(self, length: int) -> None:
        if self.at + length > len(self._content):
            raise ValueError("it is cut short")
        self.at += length
