"""The stages of a discrete rating's conditional, in vector registers (see `conditional`).

A stage takes a tile of a column's ratings at once, so that its loop is short and the processor
overlaps them: `row`, `level`, `index` (tile,) say where in a table each rating's part is.

Arrays are contiguous and of one float type. Hidden units come in whole vectors, learning pads them
to a multiple of LANES, and so do levels in working room; where levels are stored tightly, (.., n),
the last vector is loaded under a mask.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ordbm.kernels.emit import FUSED, INT, Vectors
from ordbm.kernels.structures import LEVELS

_SAFE = 1e30  # a product of ratios beyond this, or below its inverse, has lost digits
_LOWEST = -60.0  # log P(s) - log P(the likeliest level) is taken as at least this
_ESTIMATED = ("arcp", "ninf", "contract")  # a / b may be a times a refined estimate of 1 / b


def _other_level(builder, place, own):
    """The level at `place` among those other than `own`; a branch would be mispredicted."""
    return builder.add(place, builder.zext(builder.icmp_signed(">=", place, own), place.type))


@intrinsic
def level_terms(typingctx, row, level, on, rest, down, up, mean, product):
    """mean[j, k] = odds_k up[s, k] / (rest_k + odds_k up[s, k]), with odds_k = on_k down[own, k].

    on and rest are those of the rating's row, own is its level, and j
    counts the levels s other than that. product[s] (LEVELS,) is a vector whose lanes' product is
    that of the denominators, one at `own`.
    """

    def codegen(context, builder, signature, args):
        v = Vectors(context, builder, signature.args[2].dtype)
        row, level, on, rest, down, up, mean, product = v.arrays(signature, args, *range(8))
        n, d = up.shape

        def body(k, strip):
            is_first = builder.icmp_unsigned("==", k, k.type(0))
            with v.each(row.shape[0]) as (t, _):
                r = v.index(row, t)
                own = v.index(level, t)
                rests = strip.load(v.row(rest, r), k)
                ons = strip.load(v.row(on, r), k)
                downs = strip.load(v.row(down, own), k)
                odds = strip.each(Vectors.multiply, ons, downs)
                products = v.row(product, t)
                v.store(v.constant(1.0), v.place(products, builder.mul(own, own.type(LEVELS))))
                means = v.row(mean, t)
                with cgutils.for_range(builder, builder.sub(n, n.type(1))) as loop:
                    s = _other_level(builder, loop.index, own)
                    parts = strip.each(Vectors.multiply, odds, strip.load(v.row(up, s), k))
                    wholes = strip.each(
                        Vectors.multiply_add, odds, strip.load(v.row(up, s), k), rests
                    )
                    shares = strip.each(
                        lambda _, a, b: builder.fdiv(a, b, flags=_ESTIMATED), parts, wholes
                    )
                    strip.store(shares, means, builder.mul(loop.index, d), k)
                    to = v.place(products, builder.mul(s, s.type(LEVELS)))
                    so_far = builder.select(is_first, v.constant(1.0), v.load(to))
                    for whole in wholes:
                        so_far = builder.fmul(so_far, v.folded(whole))
                    v.store(so_far, to)

        v.blocks(d, body)
        return context.get_dummy_value()

    return types.void(row, level, on, rest, down, up, mean, product), codegen


@intrinsic
def log_products(typingctx, product, out, safe):
    """out[t, s] = log of the product of product[t, s]; whether all are in the range of safe floats.

    A bit of safe (tile, padded n / LEVELS) says so for each level. The tile is even.
    """

    def codegen(context, builder, signature, args):
        v = Vectors(context, builder, signature.args[0].dtype, 2 * LEVELS)
        product, out, safe = v.arrays(signature, args, 0, 1, 2)
        bits = ir.IntType(v.lanes)
        all_safe = cgutils.alloca_once_value(builder, bits(-1))
        with v.steps(v.size(out)) as (j, _):
            at = v.place(product.data, builder.mul(j, j.type(LEVELS)))
            rows = [v.load(v.place(at, j.type(v.lanes * row))) for row in range(LEVELS)]
            ratio = v.products(rows)
            inside = builder.and_(
                builder.fcmp_ordered(">", ratio, v.constant(1 / _SAFE)),
                builder.fcmp_ordered("<", ratio, v.constant(_SAFE)),
            )
            inside = builder.bitcast(inside, bits)
            to = v.place(safe.data, builder.udiv(j, j.type(LEVELS)))
            builder.store(inside, builder.bitcast(to, bits.as_pointer())).align = 1
            builder.store(builder.and_(builder.load(all_safe), inside), all_safe)
            v.store(v.log(ratio), v.place(out.data, j))
        return builder.icmp_signed("==", builder.load(all_safe), bits(-1))

    return types.boolean(product, out, safe), codegen


def _over_levels(v, index, table, rows, body):
    """Emit body(address in table[index[t]], address in rows[t], mask) for all ratings and levels.

    `rows` (tile, padded n) has whole vectors, `table` (.., n) does not.
    """
    n = table.shape[1]
    with v.steps(n) as (s, _):
        mask = v.below(s, n)
        with v.each(index.shape[0]) as (t, _):
            at = v.place(v.row(table, v.index(index, t)), s)
            body(at, v.place(v.row(rows, t), s), mask)


@intrinsic
def add_levels(typingctx, index, table, rows):
    """rows[t, s] += table[index[t], s] for the n levels; `rows` is padded, `table` is not."""

    def codegen(context, builder, signature, args):
        v = Vectors(context, builder, signature.args[1].dtype, LEVELS)

        def body(source, to, mask):
            v.store(v.add(v.load(to), v.load_masked(source, mask)), to)

        _over_levels(v, *v.arrays(signature, args, 0, 1, 2), body)
        return context.get_dummy_value()

    return types.void(index, table, rows), codegen


@intrinsic
def store_levels(typingctx, rows, index, table):
    """table[index[t], s] = rows[t, s] for the n levels; `rows` is padded, `table` is not."""

    def codegen(context, builder, signature, args):
        v = Vectors(context, builder, signature.args[0].dtype, LEVELS)

        def body(to, source, mask):
            v.store_masked(v.load(source), to, mask)

        _over_levels(v, *v.arrays(signature, args, 1, 2, 0), body)
        return context.get_dummy_value()

    return types.void(rows, index, table), codegen


@intrinsic
def exchange_levels(typingctx, rows, index, table):
    """rows[t, s] += table[index[t], s], which becomes what rows[t, s] was, for the n levels."""

    def codegen(context, builder, signature, args):
        v = Vectors(context, builder, signature.args[0].dtype, LEVELS)

        def body(at, own, mask):
            here, there = v.load(own), v.load_masked(at, mask)
            v.store_masked(here, at, mask)
            v.store(v.add(here, there), own)

        _over_levels(v, *v.arrays(signature, args, 1, 2, 0), body)
        return context.get_dummy_value()

    return types.void(rows, index, table), codegen


@intrinsic
def level_residual(typingctx, rows, bias, level, sums):
    """rows[t, s] = [s = own] - P(s) with P(s) = e^(rows[t, s] + bias[s]) / Z, own = level[t].

    sums[s] += rows[t, s]. Returns two numbers, which give sum_t log P(own): the sum over t of
    log(P(own) / P(highest)), and the product of 1 / P(highest). All are padded, and the bias of
    padding is so low that its P is nothing.
    """

    def codegen(context, builder, signature, args):
        v = Vectors(context, builder, signature.args[0].dtype, LEVELS)
        rows, bias, level, sums = v.arrays(signature, args, *range(4))
        lane = ir.Constant(v.ints, list(range(LEVELS)))
        gap = cgutils.alloca_once_value(builder, v.constant(0.0))
        product = cgutils.alloca_once_value(builder, v.constant(1.0))
        highest = cgutils.alloca_once(builder, v.vector)
        total = cgutils.alloca_once(builder, v.vector)
        with v.each(level.shape[0]) as (t, _):
            row = v.row(rows, t)
            own = v.index(level, t)
            builder.store(v.constant(-1e38), highest)
            builder.store(v.constant(0.0), total)
            with v.steps(rows.shape[1]) as (s, _):
                to = v.place(row, s)
                score = v.add(v.load(to), v.load(v.place(bias.data, s)))
                v.store(score, to)
                builder.store(v.higher(score, builder.load(highest)), highest)
            most = v.reduced(builder.load(highest), v.higher)
            apart = builder.fsub(v.scalar(v.place(row, own)), most)
            builder.store(v.add(builder.load(gap), apart), gap)
            with v.steps(rows.shape[1]) as (s, _):
                to = v.place(row, s)
                # Never so low that a product with it is denormal: those are slow.
                below = v.higher(builder.fsub(v.load(to), most), v.constant(_LOWEST))
                weight = v.exp(below)
                v.store(weight, to)
                builder.store(v.add(builder.load(total), weight), total)
            whole = v.reduced(builder.load(total), v.add)
            builder.store(v.multiply(builder.load(product), whole), product)
            share = builder.fdiv(v.constant(-1.0), whole, flags=FUSED)
            own = v.spread(builder.trunc(own, INT))
            with v.steps(rows.shape[1]) as (s, _):
                to = v.place(row, s)
                here = builder.add(lane, v.spread(builder.trunc(s, INT)))
                observed = builder.select(
                    builder.icmp_signed("==", here, own), v.constant(1.0), v.constant(0.0)
                )
                residual = v.multiply_add(v.load(to), share, observed)
                v.store(residual, to)
                so_far = v.place(sums.data, s)
                v.store(v.add(v.load(so_far), residual), so_far)
        first = [builder.extract_element(builder.load(x), INT(0)) for x in (gap, product)]
        return context.make_tuple(builder, signature.return_type, first)

    return types.UniTuple(rows.dtype, 2)(rows, bias, level, sums), codegen


@intrinsic
def spread_residual(typingctx, residual, mean, row, level, on, gradient, context_rows):
    """gradient[s, k] += residual[s] mean[j, k] over levels s other than the rating's own.

    At its own level the rating is context for the row's other ratings only: their sum leaves
    gradient[own]; with residual[own] on_k it joins the row's context. (j as in level_terms.)
    """

    def codegen(context, builder, signature, args):
        v = Vectors(context, builder, signature.args[0].dtype)
        residual, mean, row, level, on, gradient, rows = v.arrays(signature, args, *range(7))
        n, d = gradient.shape

        def body(k, strip):
            asked = strip.variables()
            with v.each(row.shape[0]) as (t, _):
                r = v.index(row, t)
                own = v.index(level, t)
                residuals = v.row(residual, t)
                means = v.row(mean, t)
                strip.each(lambda x, to: builder.store(x.constant(0.0), to), asked)
                with cgutils.for_range(builder, builder.sub(n, n.type(1))) as loop:
                    s = _other_level(builder, loop.index, own)
                    amount = strip.spread(builder.load(v.place(residuals, s)))
                    level_mean = strip.load(means, builder.mul(loop.index, d), k)
                    to = v.place(gradient.data, builder.mul(s, d))
                    now = strip.load(to, k)
                    now = strip.each(Vectors.multiply_add, amount, level_mean, now)
                    strip.store(now, to, k)
                    strip.each(
                        lambda x, a, m, so_far: builder.store(
                            x.multiply_add(a, m, builder.load(so_far)), so_far
                        ),
                        amount, level_mean, asked,
                    )  # fmt: skip
                totals = [builder.load(so_far) for so_far in asked]
                to = v.place(gradient.data, builder.mul(own, d))
                now = strip.load(to, k)
                strip.store(strip.each(lambda _, a, b: builder.fsub(a, b), now, totals), to, k)
                amount = strip.spread(builder.load(v.place(residuals, own)))
                ons = strip.load(v.row(on, r), k)
                totals = strip.each(Vectors.multiply_add, amount, ons, totals)
                to = v.row(rows, r)
                strip.store(strip.each(Vectors.add, strip.load(to, k), totals), to, k)

        v.blocks(d, body)
        return context.get_dummy_value()

    return types.void(residual, mean, row, level, on, gradient, context_rows), codegen
