"""The ratings of each block of rows, grouped by column; and columns in the order of a plan."""

from numba import njit

from ordbm.kernels.options import INNER, KERNEL


@njit(**KERNEL)
def walk_columns(
    order, block_of_row, place_of_row, start, row, level, position, first_entry, entry, place, last,
    entry_row, entry_level, entry_position, entry_origin, columns, column_entry,
):  # fmt: skip
    """Enter each rating, column by column in their `order`, into its row's block.

    A column goes by its place in that order from then on.

    `start`, `row`, `level`, `position` are the ratings by column; a row without block has -1. A
    block's ratings begin at `first_entry`; `entry` (blocks,) is where its next rating goes, `place`
    where its next column goes, and `last` its column so far, -1 at first. With empty `columns`,
    columns are only counted, in `place`. An entry's place among `row` is its origin; positions and
    origins are entered where there is room.
    """
    for c in range(order.size):
        for q in range(start[order[c]], start[order[c] + 1]):
            block = block_of_row[row[q]]
            if last[block] != c:
                last[block] = c
                if columns.size:
                    columns[place[block]] = c
                    column_entry[place[block]] = entry[block] - first_entry[block]
                place[block] += 1
            if columns.size:
                e = entry[block]
                entry_row[e] = place_of_row[row[q]]
                entry_level[e] = level[q]
                if entry_position.size:
                    entry_position[e] = position[q]
                if entry_origin.size:
                    entry_origin[e] = q
                entry[block] = e + 1


@njit(**KERNEL)
def turn_tiles(
    first_row, first_column, columns, column_entry, tile_column, entry_row, entry_level,
    entry_origin, first_turned, place, count, turned_row, turned_level, turned_position,
    turned_entry, turned_columns, turned_column_entry,
):  # fmt: skip
    """The blocks of columns, from those of rows: their rows are columns, their columns rows.

    Blocks begin at `first_row` and `first_column`; both go by their place in the order of blocks. A
    tile is what a block of rows has with a block of columns. Its entries are those of places
    tile_column[a, b] to tile_column[a, b + 1] in `columns`, of which each begins at its
    `column_entry` and ends where the next begins; they are turned within the tile, by row. Of
    each, `turned_entry` says which entry it was. `place` (blocks of columns,) is where the next
    column goes; with empty `turned_columns` they are only counted, in `place`. `count` is room for
    a block's rows.
    """
    for b in range(first_turned.size):
        at = first_turned[b]
        for a in range(first_row.size - 1):
            n_rows = first_row[a + 1] - first_row[a]
            begin = tile_column[a, b]
            end = tile_column[a, b + 1]
            count[:n_rows] = 0
            for q in range(column_entry[begin], column_entry[end]):
                count[entry_row[q]] += 1
            for r in range(n_rows):
                here = count[r]
                if here:
                    if turned_columns.size:
                        turned_columns[place[b]] = first_row[a] + r
                        turned_column_entry[place[b]] = at - first_turned[b]
                    place[b] += 1
                count[r] = at
                at += here
            if turned_columns.size:
                for c in range(begin, end):
                    own_place = columns[c] - first_column[b]
                    for q in range(column_entry[c], column_entry[c + 1]):
                        e = count[entry_row[q]]
                        count[entry_row[q]] = e + 1
                        turned_row[e] = own_place
                        turned_level[e] = entry_level[q]
                        if turned_position.size:
                            turned_position[e] = entry_origin[q]
                        turned_entry[e] = q


@njit(**INNER)
def copy_row(source, target):
    """target = source."""
    for k in range(source.size):
        target[k] = source[k]


@njit(**KERNEL)
def reorder(table, order, room, done):
    """table[c] (C, m) becomes what table[order[c]] was; in place, but for a row's `room`.

    `done` (C,) is false at first.
    """
    for first in range(order.size):
        if done[first] or order[first] == first:
            continue
        copy_row(table[first], room)
        c = first
        while order[c] != first:
            copy_row(table[order[c]], table[c])
            done[c] = True
            c = order[c]
        copy_row(room, table[c])
        done[c] = True
