"""Sums and steps of rows of hidden units, in vector registers (see `emit`).

With plain loops in their place and in that of `stages.store_levels`, an epoch of a small machine
takes a third longer (`benchmarks/results/emitted.md`). Arrays are contiguous; hidden units come in
whole vectors, learning pads them to a multiple of LANES.
"""

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ordbm.kernels.emit import Vectors
from ordbm.kernels.structures import LANES

_AHEAD = 8  # how many ratings before its turn the weights of a rating are fetched


@intrinsic
def add_level_rows(typingctx, first, last, column, level, coupling, total):
    """total_k += sum_p W[column_p, level_p, k] over positions first..last, in float64.

    The number of hidden units need not be whole vectors.
    """

    def codegen(context, builder, signature, args):
        narrow = Vectors(context, builder, signature.args[4].dtype)
        wide = Vectors(context, builder, types.float64)
        first, last = args[:2]
        column, level, coupling, total = narrow.arrays(signature, args, 2, 3, 4, 5)
        _, n, d = coupling.shape

        def widened(value, to):
            return builder.fpext(value, to) if narrow.single else value

        def weights(position, k):
            at = builder.mul(narrow.index(column, position), n)
            at = builder.add(at, narrow.index(level, position))
            return narrow.place(coupling.data, builder.mul(at, d), k)

        def positions():
            return cgutils.for_range_slice(builder, first, last, first.type(1), first.type)

        def body(k, strip):
            sums = strip.variables()
            at = wide.place(total.data, k)
            strip.each(lambda _, x, to: builder.store(x, to), strip.load(at), sums)
            with positions() as (position, _):
                place = weights(position, k)
                later = builder.add(position, position.type(_AHEAD))
                inside = builder.icmp_signed("<", later, last)
                narrow.prefetch(weights(builder.select(inside, later, position), k))
                for v, so_far, offset in zip(strip.kinds, sums, strip.offsets, strict=True):
                    part = Vectors(context, builder, narrow.kind, v.lanes)
                    row = widened(part.load(part.place(place, offset)), v.vector)
                    builder.store(v.add(builder.load(so_far), row), so_far)
            strip.store([builder.load(so_far) for so_far in sums], at)

        whole = builder.and_(d, d.type(-LANES))
        wide.blocks(whole, body)
        with cgutils.for_range_slice(builder, whole, d, d.type(1), d.type) as (k, _):
            place = wide.place(total.data, k)
            with positions() as (position, _):
                part = widened(builder.load(weights(position, k)), wide.element)
                builder.store(builder.fadd(builder.load(place), part), place)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, column, level, coupling, total), codegen


@intrinsic
def add_coupling_rows(typingctx, row, group, coupling, total):
    """total[row_q, k] += W[group_q, k] for every entry q of a column, in float64."""

    def codegen(context, builder, signature, args):
        narrow = Vectors(context, builder, signature.args[2].dtype)
        wide = Vectors(context, builder, types.float64)
        row, group, coupling, total = narrow.arrays(signature, args, *range(4))

        def body(k, strip):
            with narrow.each(row.shape[0]) as (q, _):
                weights = narrow.place(narrow.row(coupling, narrow.index(group, q)), k)
                to = wide.place(wide.row(total, wide.index(row, q)), k)
                for v, offset in zip(strip.kinds, strip.offsets, strict=True):
                    part = Vectors(context, builder, narrow.kind, v.lanes)
                    here = part.load(part.place(weights, offset))
                    if narrow.single:
                        here = builder.fpext(here, v.vector)
                    at = v.place(to, offset)
                    v.store(v.add(v.load(at), here), at)

        wide.blocks(coupling.shape[1], body)
        return context.get_dummy_value()

    return types.void(row, group, coupling, total), codegen


@intrinsic
def add_context_rows(typingctx, row, group, context_rows, gradient):
    """gradient[group_q, k] += context_rows[row_q, k] for every entry q."""

    def codegen(context, builder, signature, args):
        v = Vectors(context, builder, signature.args[2].dtype)
        row, group, rows, gradient = v.arrays(signature, args, *range(4))

        def body(k, strip):
            with v.each(row.shape[0]) as (q, _):
                part = strip.load(v.row(rows, v.index(row, q)), k)
                to = v.row(gradient, v.index(group, q))
                strip.store(strip.each(Vectors.add, part, strip.load(to, k)), to, k)

        v.blocks(rows.shape[1], body)
        return context.get_dummy_value()

    return types.void(row, group, context_rows, gradient), codegen


@intrinsic
def move_coupling(typingctx, w, v, gradient, mean, smoothing, pull, momentum, rate):
    """v = momentum v + K g - pull (w - mean);  w += rate v, for one column's coupling (n, d)."""
    number = w.dtype

    def codegen(context, builder, signature, args):
        vectors = Vectors(context, builder, number)
        w, v, gradient, mean, smoothing = vectors.arrays(signature, args, *range(5))
        n, d = w.shape

        def body(k, strip):
            pull, momentum, rate = (strip.spread(value) for value in args[5:])
            pull = [builder.fneg(part) for part in pull]
            speed = strip.variables()
            with vectors.each(n) as (s, _):
                at = builder.mul(s, d)
                weights = vectors.row(smoothing, s)
                here = strip.load(w.data, at, k)
                kept = strip.each(Vectors.multiply, momentum, strip.load(v.data, at, k))
                apart = strip.each(Vectors.subtract, here, strip.load(mean.data, at, k))
                kept = strip.each(Vectors.multiply_add, pull, apart, kept)
                strip.each(lambda _, x, to: builder.store(x, to), kept, speed)
                with vectors.each(n) as (other, _):
                    amount = strip.spread(builder.load(vectors.place(weights, other)))
                    push = strip.load(gradient.data, builder.mul(other, d), k)
                    strip.each(
                        lambda x, a, g, to: builder.store(
                            x.multiply_add(a, g, builder.load(to)), to
                        ),
                        amount, push, speed,
                    )  # fmt: skip
                now = [builder.load(part) for part in speed]
                strip.store(now, v.data, at, k)
                strip.store(strip.each(Vectors.multiply_add, rate, now, here), w.data, at, k)

        vectors.blocks(d, body)
        return context.get_dummy_value()

    return types.void(w, v, gradient, mean, smoothing, number, number, number), codegen
