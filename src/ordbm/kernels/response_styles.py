"""How people use the levels of a scale: each one's gradient and information."""

from math import exp

from numba import njit

from ordbm.kernels.options import KERNEL


@njit(**KERNEL)
def add_level_use(people, start, column, level, potential, own, room, gradient, information):
    """gradient (m, n) and information (m, n, n) of log P(levels) in each person's own potentials.

    A person's rating of a column has the potentials potential[column] + own[person]. Gradient and
    information come as zeros, `room` (n,) as anything.
    """
    n = own.shape[1]
    for person in range(people.size):
        row = people[person]
        for position in range(start[row], start[row + 1]):
            item = column[position]
            top = potential[item, 0] + own[person, 0]
            for s in range(n):
                room[s] = potential[item, s] + own[person, s]
                top = max(top, room[s])
            total = 0.0
            for s in range(n):
                room[s] = exp(room[s] - top)
                total += room[s]
            for s in range(n):
                room[s] /= total
                gradient[person, s] -= room[s]
                information[person, s, s] += room[s]
            gradient[person, level[position]] += 1.0
            for s in range(n):
                for t in range(n):
                    information[person, s, t] -= room[s] * room[t]
