"""Loops over a handful of hidden units or levels, in vector registers.

A row of hidden units is short (20, say), a row of levels shorter, and LLVM's own vectoriser spends
more time entering such a loop than in it. These functions spell the vectors out. Arrays are
contiguous and of one float type. Hidden units come in whole vectors (learning pads them to a
multiple of LANES), and so do the levels in working room; where levels are stored tightly, (.., n),
the last vector is loaded and stored under a mask.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ordbm.kernels.structures import LANES, LEVELS

_BLOCK = 4  # vectors that are kept in registers at a time
STEEPEST = 43.0  # |W| beyond this is cut, so that e^W e^-W' stays a float32
_SAFE = 1e30  # a product of ratios beyond this, or below its inverse, has lost digits
_LOWEST = -60.0  # log P(s) - log P(the likeliest level) is taken as at least this
_FUSED = ("contract",)  # a * b + c may be one instruction
_ESTIMATED = ("arcp", "ninf", "contract")  # a / b may be a times a refined estimate of 1 / b
_INT = ir.IntType(32)

_EXP_SERIES = (0.0083, 0.041668, 0.16666764, 0.49999994, 1.0, 1.0)
_LOG_SERIES = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip


class _Array:
    """An array argument: its data and shape."""

    def __init__(self, context, builder, kind, value):
        array = context.make_array(kind)(context, builder, value)
        self.data = array.data
        self.shape = cgutils.unpack_tuple(builder, array.shape)


class _Vectors:
    """Emits code on vectors of `lanes` floats of one type."""

    def __init__(self, context, builder, kind, lanes=LANES):
        self.context = context
        self.lanes = lanes
        self.builder = builder
        self.element = context.get_data_type(kind)
        self.single = kind == types.float32
        self.vector = ir.VectorType(self.element, self.lanes)
        self.ints = ir.VectorType(_INT, self.lanes)

    def array(self, kind, value):
        return _Array(self.context, self.builder, kind, value)

    def constant(self, value):
        return ir.Constant(self.vector, [self.element(value)] * self.lanes)

    def spread(self, value):
        """A vector that holds `value` in every lane."""
        kind = ir.VectorType(value.type, self.lanes)
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), value, _INT(0))
        return self.builder.shuffle_vector(one, one, ir.Constant(self.ints, [0] * self.lanes))

    def steps(self, size):
        """Code for 0, lanes, 2 lanes, … below `size`; gives the first index and the loop."""
        return cgutils.for_range_slice(
            self.builder, size.type(0), size, size.type(self.lanes), size.type
        )

    def blocks(self, size, body):
        """Emit body(first, count) for blocks of up to _BLOCK vectors: `count` is a constant.

        What a block shares over levels then stays in registers.
        """
        builder = self.builder
        step = size.type(_BLOCK * self.lanes)
        left = builder.urem(size, step)
        whole = builder.sub(size, left)
        with cgutils.for_range_slice(builder, size.type(0), whole, step, size.type) as (k, _):
            body(k, _BLOCK)
        for count in range(1, _BLOCK):
            with builder.if_then(builder.icmp_unsigned("==", left, size.type(count * self.lanes))):
                body(whole, count)

    def load_block(self, data, count, *offsets):
        """`count` vectors from data[sum of offsets] on."""
        first = self.place(data, *offsets)
        return [self.load(address) for address in self.addresses(first, count)]

    def addresses(self, first, count):
        return [self.builder.gep(first, [_INT(j * self.lanes)]) for j in range(count)]

    def place(self, data, *offsets):
        """The address of data[sum of offsets]."""
        for offset in offsets:
            data = self.builder.gep(data, [offset])
        return data

    def load(self, address):
        vector = self.builder.load(self.builder.bitcast(address, self.vector.as_pointer()))
        vector.align = 4
        return vector

    def store(self, vector, address):
        address = self.builder.bitcast(address, self.vector.as_pointer())
        self.builder.store(vector, address).align = 4

    def scalar(self, address):
        """The number at `address` in every lane."""
        return self.spread(self.builder.load(address))

    def call(self, name, result, *args):
        kind = ir.FunctionType(result, [arg.type for arg in args])
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, args)

    def below(self, first, size):
        """A mask of the lanes `first`, `first` + 1, ... that are below `size`."""
        lane = ir.Constant(self.ints, list(range(self.lanes)))
        left = self.builder.trunc(self.builder.sub(size, first), _INT)
        return self.builder.icmp_signed("<", lane, self.spread(left))

    def load_masked(self, address, mask):
        """The lanes in `mask`, and zero elsewhere."""
        address = self.builder.bitcast(address, self.vector.as_pointer())
        name = f"llvm.masked.load.v{self.lanes}f{32 if self.single else 64}.p0"
        return self.call(name, self.vector, address, _INT(4), mask, self.constant(0.0))

    def store_masked(self, vector, address, mask):
        address = self.builder.bitcast(address, self.vector.as_pointer())
        name = f"llvm.masked.store.v{self.lanes}f{32 if self.single else 64}.p0"
        self.call(name, ir.VoidType(), vector, address, _INT(4), mask)

    def add(self, a, b):
        return self.builder.fadd(a, b, flags=_FUSED)

    def multiply(self, a, b):
        return self.builder.fmul(a, b, flags=_FUSED)

    def multiply_add(self, a, b, c):
        return self.add(self.multiply(a, b), c)

    def higher(self, a, b):
        """max(a, b); a if one is not a number."""
        return self.builder.select(self.builder.fcmp_ordered("<", a, b), b, a)

    def clip(self, x, low, high):
        x = self.higher(x, self.constant(low))
        high = self.constant(high)
        return self.builder.select(self.builder.fcmp_ordered(">", x, high), high, x)

    def shuffled(self, a, b, order):
        return self.builder.shuffle_vector(a, b, ir.Constant(self.ints, order))

    def reduced(self, vector, operation):
        """operation(..) over all lanes, in every lane."""
        width = self.lanes
        while width > 1:
            width //= 2
            order = [lane ^ width for lane in range(self.lanes)]
            vector = operation(vector, self.shuffled(vector, vector, order))
        return vector

    def folded(self, vector):
        """The products of lanes LEVELS apart, in LEVELS lanes."""
        width = self.lanes
        while width > LEVELS:
            width //= 2
            kind = ir.VectorType(_INT, width)
            low, high = (
                self.builder.shuffle_vector(
                    vector, vector, ir.Constant(kind, list(range(first, first + width)))
                )
                for first in (0, width)
            )
            vector = self.builder.fmul(low, high)
        return vector

    def products(self, rows):
        """One vector of the products over the lanes of self.lanes vectors.

        Vectors far apart meet first, so that the products end up in the order of the vectors.
        """
        width = self.lanes
        while width > 1:
            width //= 2
            starts = range(0, self.lanes, 2 * width)
            low = [
                lane + side
                for at in starts
                for side in (0, self.lanes)
                for lane in range(at, at + width)
            ]
            high = [lane + width for lane in low]
            rows = [
                self.multiply(self.shuffled(a, b, low), self.shuffled(a, b, high))
                for a, b in zip(rows[:width], rows[width:], strict=True)
            ]
        return rows[0]

    def series(self, x, coefficients):
        """sum_j c_j x^j, from the highest power down."""
        total = self.constant(coefficients[0])
        for coefficient in coefficients[1:]:
            total = self.multiply_add(total, x, self.constant(coefficient))
        return total

    def exp(self, x):
        """e^x as in `numerics.fast_exp`."""
        if not self.single:
            return self.call(f"llvm.exp.v{self.lanes}f64", self.vector, x)
        builder = self.builder
        x = self.clip(x, -87.0, 88.0)
        # Adding 1.5 * 2^23 leaves the nearest integer in the lowest bits.
        shift = self.constant(12582912.0)
        shifted = builder.fadd(
            self.multiply(x, self.constant(1.4426950408889634)), shift, flags=_FUSED
        )
        power = builder.fsub(shifted, shift, flags=_FUSED)
        f = self.multiply_add(power, self.constant(-0.6931471805599453), x)
        bits = builder.bitcast(self.series(f, _EXP_SERIES), self.ints)
        exponent = builder.shl(builder.bitcast(shifted, self.ints), self.spread_int(23))
        return builder.bitcast(builder.add(bits, exponent), self.vector)

    def log(self, x):
        """log x as in `numerics.fast_log`."""
        if not self.single:
            return self.call(f"llvm.log.v{self.lanes}f64", self.vector, x)
        builder = self.builder
        # The mantissa is taken from sqrt(1/2) to sqrt(2).
        bits = builder.sub(builder.bitcast(x, self.ints), self.spread_int(0x3F3504F3))
        power = builder.sitofp(builder.ashr(bits, self.spread_int(23)), self.vector)
        m = builder.add(
            builder.and_(bits, self.spread_int(0x007FFFFF)), self.spread_int(0x3F3504F3)
        )
        f = builder.fsub(builder.bitcast(m, self.vector), self.constant(1.0))
        square = self.multiply(f, f)
        rest = self.multiply(f, self.series(f, _LOG_SERIES))
        rest = self.multiply(square, builder.fsub(rest, self.constant(0.5), flags=_FUSED))
        return self.multiply_add(power, self.constant(0.6931471805599453), self.add(rest, f))

    def spread_int(self, value):
        return ir.Constant(self.ints, [value] * self.lanes)


@intrinsic
def prefetch(typingctx, table, row):
    """Ask for the cache line of table[row], which will soon be read or written."""

    def codegen(context, builder, signature, args):
        array = _Array(context, builder, signature.args[0], args[0])
        width = array.shape[1] if len(array.shape) > 1 else row_type(1)
        address = builder.gep(array.data, [builder.mul(args[1], width)])
        address = builder.bitcast(address, ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [address.type, _INT, _INT, _INT])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [address, _INT(0), _INT(3), _INT(1)])
        return context.get_dummy_value()

    row_type = ir.IntType(64)
    return types.void(table, types.intp), codegen


@intrinsic
def add_scaled(typingctx, amount, source, target):
    """target_k += amount source_k."""

    def codegen(context, builder, signature, args):
        v = _Vectors(context, builder, signature.args[1].dtype)
        factor = v.spread(args[0])
        source, target = (v.array(*pair) for pair in zip(signature.args[1:], args[1:], strict=True))
        with v.steps(source.shape[0]) as (k, _):
            to = v.place(target.data, k)
            v.store(v.multiply_add(factor, v.load(v.place(source.data, k)), v.load(to)), to)
        return context.get_dummy_value()

    return types.void(source.dtype, source, target), codegen


@intrinsic
def add_level_rows(typingctx, first, last, column, level, coupling, total):
    """total_k += sum_p W[column_p, level_p, k] over positions first..last, in float64.

    The number of hidden units need not be whole vectors.
    """

    def codegen(context, builder, signature, args):
        kind = signature.args[4].dtype
        narrow = _Vectors(context, builder, kind)
        wide = _Vectors(context, builder, types.float64)
        first, last = args[:2]
        column, level, coupling, total = (
            narrow.array(*pair) for pair in zip(signature.args[2:], args[2:], strict=True)
        )
        _, n, d = coupling.shape

        def widened(value, to):
            return builder.fpext(value, to) if narrow.single else value

        def weights(position, k):
            at = builder.sext(builder.load(narrow.place(column.data, position)), d.type)
            s = builder.zext(builder.load(narrow.place(level.data, position)), d.type)
            return narrow.place(
                coupling.data, builder.mul(builder.add(builder.mul(at, n), s), d), k
            )

        def positions():
            return cgutils.for_range_slice(builder, first, last, first.type(1), first.type)

        def body(k, count):
            places = wide.addresses(wide.place(total.data, k), count)
            sums = [cgutils.alloca_once(builder, wide.vector) for _ in places]
            for so_far, place in zip(sums, places, strict=True):
                builder.store(wide.load(place), so_far)
            with positions() as (position, _):
                for so_far, row in zip(
                    sums, narrow.load_block(weights(position, k), count), strict=True
                ):
                    part = widened(row, wide.vector)
                    builder.store(wide.add(builder.load(so_far), part), so_far)
            for so_far, place in zip(sums, places, strict=True):
                wide.store(builder.load(so_far), place)

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
def clear(typingctx, table):
    """table[s, k] = 0."""

    def codegen(context, builder, signature, args):
        v = _Vectors(context, builder, signature.args[0].dtype)
        table = v.array(signature.args[0], args[0])
        with v.steps(builder.mul(*table.shape)) as (j, _):
            v.store(v.constant(0.0), v.place(table.data, j))
        return context.get_dummy_value()

    return types.void(table), codegen


@intrinsic
def fill_level_exp(typingctx, weights, up, down):
    """up = e^W and down = e^-W of one column, (n, d) each."""

    def codegen(context, builder, signature, args):
        v = _Vectors(context, builder, signature.args[0].dtype)
        weights, up, down = (v.array(*pair) for pair in zip(signature.args, args, strict=True))
        with v.steps(builder.mul(*weights.shape)) as (j, _):
            level = v.exp(v.clip(v.load(v.place(weights.data, j)), -STEEPEST, STEEPEST))
            v.store(level, v.place(up.data, j))
            inverse = builder.fdiv(v.constant(1.0), level, flags=_FUSED)
            v.store(inverse, v.place(down.data, j))
        return context.get_dummy_value()

    return types.void(weights, up, down), codegen


def _other_level(builder, place, own):
    """The level at `place` among those other than `own`; a branch would be mispredicted."""
    return builder.add(place, builder.zext(builder.icmp_signed(">=", place, own), place.type))


@intrinsic
def level_terms(typingctx, on, rest, down, up, own, mean, product):
    """mean[j, k] = odds_k up[s, k] / (rest_k + odds_k up[s, k]), with odds_k = on_k down[own, k].

    j counts the levels s other than `own`. product[s] (LEVELS,) is a vector whose lanes' product is
    that of the denominators, and one at `own`.
    """

    def codegen(context, builder, signature, args):
        v = _Vectors(context, builder, signature.args[0].dtype)
        lanes = _Vectors(context, builder, signature.args[0].dtype, LEVELS)
        on, rest, down, up, mean, product = (
            v.array(signature.args[j], args[j]) for j in (0, 1, 2, 3, 5, 6)
        )
        own = args[4]
        n, d = up.shape

        def product_of(level):
            return v.place(product.data, builder.mul(level, level.type(LEVELS)))

        with cgutils.for_range(builder, n) as loop:
            lanes.store(lanes.constant(1.0), product_of(loop.index))

        def body(k, count):
            rests = v.load_block(rest.data, count, k)
            downs = v.load_block(down.data, count, builder.mul(own, d), k)
            ons = v.load_block(on.data, count, k)
            odds = [v.multiply(*pair) for pair in zip(ons, downs, strict=True)]
            with cgutils.for_range(builder, builder.sub(n, n.type(1))) as loop:
                s = _other_level(builder, loop.index, own)
                ups = v.load_block(up.data, count, builder.mul(s, d), k)
                means = v.addresses(v.place(mean.data, builder.mul(loop.index, d), k), count)
                so_far = v.constant(1.0)
                for j in range(count):
                    part = v.multiply(odds[j], ups[j])
                    whole = v.add(part, rests[j])
                    so_far = whole if j == 0 else builder.fmul(so_far, whole)
                    v.store(builder.fdiv(part, whole, flags=_ESTIMATED), means[j])
                to = product_of(s)
                lanes.store(builder.fmul(lanes.load(to), v.folded(so_far)), to)

        v.blocks(d, body)
        return context.get_dummy_value()

    return types.void(on, rest, down, up, types.intp, mean, product), codegen


@intrinsic
def log_products(typingctx, product, out):
    """out[s] = log of the product of product[s]; whether all are in the range of safe floats."""

    def codegen(context, builder, signature, args):
        v = _Vectors(context, builder, signature.args[0].dtype, LEVELS)
        product, out = (v.array(*pair) for pair in zip(signature.args, args, strict=True))
        safe = cgutils.alloca_once_value(builder, ir.Constant(ir.IntType(LEVELS), -1))
        with v.steps(out.shape[0]) as (s, _):
            at = v.place(product.data, builder.mul(s, s.type(LEVELS)))
            rows = [v.load(v.place(at, s.type(LEVELS * row))) for row in range(LEVELS)]
            ratio = v.products(rows)
            inside = builder.and_(
                builder.fcmp_ordered(">", ratio, v.constant(1 / _SAFE)),
                builder.fcmp_ordered("<", ratio, v.constant(_SAFE)),
            )
            inside = builder.bitcast(inside, ir.IntType(LEVELS))
            builder.store(builder.and_(builder.load(safe), inside), safe)
            v.store(v.log(ratio), v.place(out.data, s))
        return builder.icmp_signed("==", builder.load(safe), ir.Constant(ir.IntType(LEVELS), -1))

    return types.boolean(product, out), codegen


@intrinsic
def add_levels(typingctx, levels, row):
    """row[s] += levels[s] for the n levels; `row` is padded."""

    def codegen(context, builder, signature, args):
        v = _Vectors(context, builder, signature.args[0].dtype, LEVELS)
        levels, row = (v.array(*pair) for pair in zip(signature.args, args, strict=True))
        with v.steps(levels.shape[0]) as (s, _):
            part = v.load_masked(v.place(levels.data, s), v.below(s, levels.shape[0]))
            to = v.place(row.data, s)
            v.store(v.add(v.load(to), part), to)
        return context.get_dummy_value()

    return types.void(levels, row), codegen


@intrinsic
def store_levels(typingctx, row, levels):
    """levels[s] = row[s] for the n levels; `row` is padded."""

    def codegen(context, builder, signature, args):
        v = _Vectors(context, builder, signature.args[0].dtype, LEVELS)
        row, levels = (v.array(*pair) for pair in zip(signature.args, args, strict=True))
        with v.steps(levels.shape[0]) as (s, _):
            mask = v.below(s, levels.shape[0])
            v.store_masked(v.load(v.place(row.data, s)), v.place(levels.data, s), mask)
        return context.get_dummy_value()

    return types.void(row, levels), codegen


@intrinsic
def add_residual(typingctx, row, levels):
    """levels[s, 0] += row[s] for the n levels; `row` is padded."""

    def codegen(context, builder, signature, args):
        v = _Vectors(context, builder, signature.args[0].dtype, LEVELS)
        row, levels = (v.array(*pair) for pair in zip(signature.args, args, strict=True))
        with v.steps(levels.shape[0]) as (s, _):
            mask = v.below(s, levels.shape[0])
            to = v.place(levels.data, s)
            v.store_masked(v.add(v.load_masked(to, mask), v.load(v.place(row.data, s))), to, mask)
        return context.get_dummy_value()

    return types.void(row, levels), codegen


@intrinsic
def level_residual(typingctx, row, bias, own):
    """row[s] = [s = own] - P(s) with P(s) = e^(row[s] + bias[s]) / Z; (highest, Z / e^highest).

    Both are padded, and the bias of padding is so low that its P is nothing.
    """

    def codegen(context, builder, signature, args):
        v = _Vectors(context, builder, signature.args[0].dtype, LEVELS)
        row, bias = (v.array(*pair) for pair in zip(signature.args[:2], args[:2], strict=True))
        own = v.spread(builder.trunc(args[2], _INT))
        highest = cgutils.alloca_once_value(builder, v.constant(-1e38))
        with v.steps(row.shape[0]) as (s, _):
            to = v.place(row.data, s)
            score = v.add(v.load(to), v.load(v.place(bias.data, s)))
            v.store(score, to)
            builder.store(v.higher(score, builder.load(highest)), highest)
        most = v.reduced(builder.load(highest), v.higher)
        total = cgutils.alloca_once_value(builder, v.constant(0.0))
        with v.steps(row.shape[0]) as (s, _):
            to = v.place(row.data, s)
            # Never so low that a product with it is denormal: those are slow.
            below = v.higher(builder.fsub(v.load(to), most), v.constant(_LOWEST))
            weight = v.exp(below)
            v.store(weight, to)
            builder.store(v.add(builder.load(total), weight), total)
        whole = v.reduced(builder.load(total), v.add)
        share = builder.fdiv(v.constant(-1.0), whole, flags=_FUSED)
        lane = ir.Constant(v.ints, list(range(LEVELS)))
        with v.steps(row.shape[0]) as (s, _):
            to = v.place(row.data, s)
            here = builder.add(lane, v.spread(builder.trunc(s, _INT)))
            observed = builder.select(
                builder.icmp_signed("==", here, own), v.constant(1.0), v.constant(0.0)
            )
            v.store(v.multiply_add(v.load(to), share, observed), to)
        first = [builder.extract_element(vector, _INT(0)) for vector in (most, whole)]
        return context.make_tuple(builder, signature.return_type, first)

    return types.UniTuple(row.dtype, 2)(row, bias, types.intp), codegen


@intrinsic
def spread_residual(typingctx, residual, mean, on, own, gradient, context_row):
    """gradient[s, k] += residual[s] mean[j, k] over levels s other than `own` (see level_terms).

    At its own level the rating is context for the row's other ratings only: their sum leaves
    gradient[own]; with residual[own] on_k it joins the row's context.
    """

    def codegen(context, builder, signature, args):
        v = _Vectors(context, builder, signature.args[0].dtype)
        residual, mean, on, gradient, row = (
            v.array(signature.args[j], args[j]) for j in (0, 1, 2, 4, 5)
        )
        own = args[3]
        n, d = gradient.shape

        def body(k, count):
            asked = [cgutils.alloca_once(builder, v.vector) for _ in range(count)]
            for total in asked:
                builder.store(v.constant(0.0), total)
            with cgutils.for_range(builder, builder.sub(n, n.type(1))) as loop:
                s = _other_level(builder, loop.index, own)
                amount = v.scalar(v.place(residual.data, s))
                means = v.load_block(mean.data, count, builder.mul(loop.index, d), k)
                places = v.addresses(v.place(gradient.data, builder.mul(s, d), k), count)
                for j in range(count):
                    v.store(v.multiply_add(amount, means[j], v.load(places[j])), places[j])
                    total = v.multiply_add(amount, means[j], builder.load(asked[j]))
                    builder.store(total, asked[j])
            amount = v.scalar(v.place(residual.data, own))
            ons = v.load_block(on.data, count, k)
            places = v.addresses(v.place(gradient.data, builder.mul(own, d), k), count)
            rows = v.addresses(v.place(row.data, k), count)
            for j in range(count):
                total = builder.load(asked[j])
                v.store(builder.fsub(v.load(places[j]), total), places[j])
                v.store(v.add(v.load(rows[j]), v.multiply_add(amount, ons[j], total)), rows[j])

        v.blocks(d, body)
        return context.get_dummy_value()

    return types.void(residual, mean, on, types.intp, gradient, context_row), codegen


@intrinsic
def move_coupling(typingctx, w, v, gradient, smoothing, pull, momentum, rate):
    """v = momentum v + K g - pull w;  w += rate v, for the (n, d) coupling of one column."""
    number = w.dtype

    def codegen(context, builder, signature, args):
        vectors = _Vectors(context, builder, number)
        w, v, gradient, smoothing = (
            vectors.array(*pair) for pair in zip(signature.args[:4], args[:4], strict=True)
        )
        pull, momentum, rate = (vectors.spread(value) for value in args[4:])
        pull = builder.fneg(pull)
        n, d = w.shape
        speed = cgutils.alloca_once(builder, vectors.vector)
        with cgutils.for_range(builder, n) as level:
            at = builder.mul(level.index, d)
            weights = vectors.place(smoothing.data, builder.mul(level.index, n))
            with vectors.steps(d) as (k, _):
                place, pace = (vectors.place(array.data, at, k) for array in (w, v))
                here = vectors.load(place)
                kept = vectors.multiply(momentum, vectors.load(pace))
                builder.store(vectors.multiply_add(pull, here, kept), speed)
                with cgutils.for_range(builder, n) as other:
                    amount = vectors.scalar(vectors.place(weights, other.index))
                    push = vectors.load(
                        vectors.place(gradient.data, builder.mul(other.index, d), k)
                    )
                    builder.store(vectors.multiply_add(amount, push, builder.load(speed)), speed)
                now = builder.load(speed)
                vectors.store(now, pace)
                vectors.store(vectors.multiply_add(rate, now, here), place)
        return context.get_dummy_value()

    return types.void(w, v, gradient, smoothing, number, number, number), codegen
