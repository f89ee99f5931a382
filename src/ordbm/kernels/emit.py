"""Code for loops over a handful of hidden units or levels, in vector registers.

A row of hidden units is short (20, say), a row of levels shorter, and LLVM's own vectoriser spends
more time entering such a loop than in it. `Vectors` spells the vectors out; the functions that are
written with it are in `stages` and `unit_rows`.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ordbm.kernels.structures import LANES, LEVELS

INT = ir.IntType(32)
FUSED = ("contract",)  # a * b + c may be one instruction
_WIDE = 2 * LANES  # lanes of the widest vector
_BLOCK = 4 * LANES  # hidden units that are kept in registers at a time

_EXP_SERIES = (0.0083, 0.041668, 0.16666764, 0.49999994, 1.0, 1.0)
_LOG_SERIES = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip


class ArrayArgument:
    """An array argument: its data and shape."""

    def __init__(self, context, builder, kind, value):
        array = context.make_array(kind)(context, builder, value)
        self.data = array.data
        self.shape = cgutils.unpack_tuple(builder, array.shape)
        self.signed = getattr(kind.dtype, "signed", True)


class Vectors:
    """Emits code on vectors of `lanes` floats of one type."""

    def __init__(self, context, builder, kind, lanes=LANES):
        self.context = context
        self.kind = kind
        self.lanes = lanes
        self.builder = builder
        self.element = context.get_data_type(kind)
        self.single = kind == types.float32
        self.vector = ir.VectorType(self.element, self.lanes)
        self.ints = ir.VectorType(INT, self.lanes)

    def arrays(self, signature, args, *which):
        """The arguments `which`, all arrays."""
        return [
            ArrayArgument(self.context, self.builder, signature.args[j], args[j]) for j in which
        ]

    def index(self, array, place):
        """The integer array[place], as wide as `place`."""
        number = self.builder.load(self.place(array.data, place))
        extend = self.builder.sext if array.signed else self.builder.zext
        return number if number.type == place.type else extend(number, place.type)

    def size(self, array):
        """How many numbers the array has."""
        size = array.shape[0]
        for other in array.shape[1:]:
            size = self.builder.mul(size, other)
        return size

    def row(self, array, place):
        """The address of array[place]."""
        for size in array.shape[1:]:
            place = self.builder.mul(place, size)
        return self.place(array.data, place)

    def constant(self, value):
        return ir.Constant(self.vector, [self.element(value)] * self.lanes)

    def spread(self, value):
        """A vector that holds `value` in every lane."""
        kind = ir.VectorType(value.type, self.lanes)
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), value, INT(0))
        return self.builder.shuffle_vector(one, one, ir.Constant(self.ints, [0] * self.lanes))

    def steps(self, size):
        """Code for 0, lanes, 2 lanes, … below `size`; gives the first index and the loop."""
        return cgutils.for_range_slice(
            self.builder, size.type(0), size, size.type(self.lanes), size.type
        )

    def each(self, size):
        """Code for 0, 1, … below `size`; gives the index and the loop."""
        return cgutils.for_range_slice(self.builder, size.type(0), size, size.type(1), size.type)

    def blocks(self, size, body):
        """Emit body(first, strip) for blocks of up to _BLOCK of `size` numbers.

        What a block shares over levels or ratings then stays in registers.
        """
        builder = self.builder
        step = size.type(_BLOCK)
        left = builder.urem(size, step)
        whole = builder.sub(size, left)
        with cgutils.for_range_slice(builder, size.type(0), whole, step, size.type) as (k, _):
            body(k, Strip(self, _BLOCK))
        for count in range(LANES, _BLOCK, LANES):
            with builder.if_then(builder.icmp_unsigned("==", left, size.type(count))):
                body(whole, Strip(self, count))

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

    def prefetch(self, address):
        """Ask for the cache line at `address`."""
        address = self.builder.bitcast(address, ir.IntType(8).as_pointer())
        self.call("llvm.prefetch.p0", ir.VoidType(), address, INT(0), INT(3), INT(1))

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
        left = self.builder.trunc(self.builder.sub(size, first), INT)
        return self.builder.icmp_signed("<", lane, self.spread(left))

    def load_masked(self, address, mask):
        """The lanes in `mask`, and zero elsewhere."""
        address = self.builder.bitcast(address, self.vector.as_pointer())
        name = f"llvm.masked.load.v{self.lanes}f{32 if self.single else 64}.p0"
        return self.call(name, self.vector, address, INT(4), mask, self.constant(0.0))

    def store_masked(self, vector, address, mask):
        address = self.builder.bitcast(address, self.vector.as_pointer())
        name = f"llvm.masked.store.v{self.lanes}f{32 if self.single else 64}.p0"
        self.call(name, ir.VoidType(), vector, address, INT(4), mask)

    def add(self, a, b):
        return self.builder.fadd(a, b, flags=FUSED)

    def subtract(self, a, b):
        return self.builder.fsub(a, b, flags=FUSED)

    def multiply(self, a, b):
        return self.builder.fmul(a, b, flags=FUSED)

    def multiply_add(self, a, b, c):
        """a b + c, rounded once where the processor can."""
        name = f"llvm.fmuladd.v{a.type.count}f{32 if self.single else 64}"
        return self.call(name, a.type, a, b, c)

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
        width = vector.type.count
        while width > LEVELS:
            width //= 2
            kind = ir.VectorType(INT, width)
            low, high = (
                self.builder.shuffle_vector(
                    vector, vector, ir.Constant(kind, list(range(first, first + width)))
                )
                for first in (0, width)
            )
            vector = self.builder.fmul(low, high)
        return vector

    def products(self, rows):
        """The products over each LEVELS lanes of LEVELS vectors, in their order, in one vector.

        Halves, quarters, ... of such groups of lanes are multiplied, and two vectors become one.
        """
        width = LEVELS
        while width > 1:
            width //= 2
            low = [lane for lane in range(2 * self.lanes) if lane // width % 2 == 0]
            high = [lane + width for lane in low]
            rows = [
                self.multiply(self.shuffled(a, b, low), self.shuffled(a, b, high))
                for a, b in zip(rows[::2], rows[1::2], strict=True)
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
            self.multiply(x, self.constant(1.4426950408889634)), shift, flags=FUSED
        )
        power = builder.fsub(shifted, shift, flags=FUSED)
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
        rest = self.multiply(square, builder.fsub(rest, self.constant(0.5), flags=FUSED))
        return self.multiply_add(power, self.constant(0.6931471805599453), self.add(rest, f))

    def spread_int(self, value):
        return ir.Constant(self.ints, [value] * self.lanes)


class Strip:
    """Up to _BLOCK hidden units in one or two vectors: 8, 16, 16 + 8 or 16 + 16 lanes."""

    def __init__(self, vectors, size):
        widths = [_WIDE] * (size // _WIDE) + [LANES] * (size % _WIDE // LANES)
        self.kinds = [
            Vectors(vectors.context, vectors.builder, vectors.kind, lanes) for lanes in widths
        ]
        self.offsets = [INT(_WIDE * j) for j in range(len(widths))]

    def load(self, data, *offsets):
        """The vectors from data[sum of offsets] on."""
        return self.each(lambda v, at: v.load(v.place(data, *offsets, at)), self.offsets)

    def store(self, values, data, *offsets):
        self.each(
            lambda v, value, at: v.store(value, v.place(data, *offsets, at)), values, self.offsets
        )

    def spread(self, value):
        return self.each(lambda v: v.spread(value))

    def variables(self):
        """Room in registers for a sum over a loop: to be stored and loaded, at first zero."""
        variables = self.each(lambda v: cgutils.alloca_once(v.builder, v.vector))
        self.each(lambda v, to: v.builder.store(v.constant(0.0), to), variables)
        return variables

    def each(self, operation, *operands):
        """[operation(v, vector of each operand)] for each vector of the strip."""
        return [operation(*parts) for parts in zip(self.kinds, *operands, strict=True)]
