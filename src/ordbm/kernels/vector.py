"""Loops over a handful of hidden units, in vector registers.

A row of hidden units is short (20, say), and LLVM's own vectoriser spends more time entering such a
loop than in it. These functions spell the vectors out. They take one-dimensional contiguous arrays
of one float type and one length, a multiple of LANES; learning pads hidden units to that.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ordbm.kernels.structures import LANES

_FUSED = ("contract",)  # a * b + c may be one instruction


class _Loop:
    """Code for `for j in range(0, size, LANES)` over arrays, one vector of each at a time."""

    def __init__(self, context, builder, kinds, values):
        self.context = context
        self.builder = builder
        self.element = context.get_data_type(kinds[0].dtype)
        self.vector = ir.VectorType(self.element, LANES)
        arrays = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(kinds, values, strict=True)
        ]
        self.data = [array.data for array in arrays]
        self.size = builder.extract_value(arrays[0].shape, 0)

    def spread(self, value):
        """A vector that holds `value` in every lane."""
        lane = ir.Constant(ir.IntType(32), 0)
        one = self.builder.insert_element(ir.Constant(self.vector, ir.Undefined), value, lane)
        order = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return self.builder.shuffle_vector(one, one, order)

    def run(self, body):
        """Emit the loop; body(vectors) returns {array number: vector to store}."""
        builder = self.builder
        count = builder.udiv(self.size, self.size.type(LANES))
        with cgutils.for_range(builder, count) as loop:
            first = builder.mul(loop.index, self.size.type(LANES))
            places = [
                builder.bitcast(builder.gep(data, [first]), self.vector.as_pointer())
                for data in self.data
            ]
            vectors = []
            for place in places:
                vector = builder.load(place)
                vector.align = 4
                vectors.append(vector)
            for number, vector in body(vectors).items():
                builder.store(vector, places[number]).align = 4

    def product(self, vector):
        """The product of a vector's lanes."""
        width = LANES
        lanes = ir.VectorType(ir.IntType(32), LANES)
        while width > 1:
            width //= 2
            order = ir.Constant(lanes, [(lane + width) % LANES for lane in range(LANES)])
            vector = self.builder.fmul(vector, self.builder.shuffle_vector(vector, vector, order))
        return self.builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))


@intrinsic
def level_terms(typingctx, odds, rest, level, mean):
    """prod_k (rest_k + odds_k level_k), and mean_k = odds_k level_k / (rest_k + odds_k level_k)."""

    def codegen(context, builder, signature, args):
        loop = _Loop(context, builder, signature.args, args)
        product = cgutils.alloca_once_value(builder, loop.spread(loop.element(1.0)))

        def body(vectors):
            on = builder.fmul(vectors[0], vectors[2], flags=_FUSED)
            whole = builder.fadd(vectors[1], on, flags=_FUSED)
            builder.store(builder.fmul(builder.load(product), whole), product)
            return {3: builder.fdiv(on, whole)}

        loop.run(body)
        return loop.product(builder.load(product))

    return odds.dtype(odds, rest, level, mean), codegen


@intrinsic
def spread_gradient(typingctx, amount, mean, gradient, asked):
    """gradient_k += amount mean_k and asked_k += amount mean_k."""

    def codegen(context, builder, signature, args):
        loop = _Loop(context, builder, signature.args[1:], args[1:])
        factor = loop.spread(args[0])

        def body(vectors):
            part = builder.fmul(factor, vectors[0], flags=_FUSED)
            return {1: builder.fadd(vectors[1], part, flags=_FUSED),
                    2: builder.fadd(vectors[2], part, flags=_FUSED)}  # fmt: skip

        loop.run(body)
        return context.get_dummy_value()

    return types.void(mean.dtype, mean, gradient, asked), codegen


@intrinsic
def add_scaled(typingctx, amount, source, target):
    """target_k += amount source_k."""

    def codegen(context, builder, signature, args):
        loop = _Loop(context, builder, signature.args[1:], args[1:])
        factor = loop.spread(args[0])

        def body(vectors):
            part = builder.fmul(factor, vectors[0], flags=_FUSED)
            return {1: builder.fadd(vectors[1], part, flags=_FUSED)}

        loop.run(body)
        return context.get_dummy_value()

    return types.void(source.dtype, source, target), codegen


@intrinsic
def multiply(typingctx, first, second, target):
    """target_k = first_k second_k."""

    def codegen(context, builder, signature, args):
        loop = _Loop(context, builder, signature.args, args)
        loop.run(lambda vectors: {2: builder.fmul(vectors[0], vectors[1])})
        return context.get_dummy_value()

    return types.void(first, second, target), codegen
