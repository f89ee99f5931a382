"""The ratings of each block of rows, grouped by column."""

from numba import njit

from ordbm.kernels.options import KERNEL


@njit(**KERNEL)
def walk_columns(
    block_of_row, place_of_row, start, row, position, first_entry, entry, place, last, entry_row,
    entry_position, columns, column_entry,
):  # fmt: skip
    """Enter each rating, column by column, into its row's block; count the columns of each block.

    `start`, `row`, `position` are the ratings by column. A block's ratings begin at `first_entry`;
    `entry` (blocks,) is where its next rating goes, `place` where its next column goes, and `last`
    its column so far, -1 at first. With empty `columns`, columns are only counted, in `place`.
    """
    for c in range(start.size - 1):
        for q in range(start[c], start[c + 1]):
            block = block_of_row[row[q]]
            if last[block] != c:
                last[block] = c
                if columns.size:
                    columns[place[block]] = c
                    column_entry[place[block]] = entry[block] - first_entry[block]
                place[block] += 1
            if columns.size:
                entry_row[entry[block]] = place_of_row[row[q]]
                entry_position[entry[block]] = position[q]
                entry[block] += 1
