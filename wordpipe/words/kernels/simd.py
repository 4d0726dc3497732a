"""The arithmetic of rows in vector instructions: dot products, updates, and the gradients of the logistic loss.

Rows are float32, of a length that is a multiple of `LANES`, and are given by their addresses, as plain numbers: a NumPy row
passed around in a kernel costs two atomic counts of its owner, and a compiler left alone with `for d in range(dim)` treats up
to 31 numbers of each row one by one. Nothing is checked: a wrong address ends the process.

Six sums are kept in registers at a time, which is what the 16 vector registers of AVX2 hold beside their operands.
"""

from collections.abc import Callable
from typing import Any

from wordpipe.compiled import inlined  # before numba, which it keeps from the working folder's settings

# isort: split
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8
"""Numbers in a vector register of AVX2; half of one of AVX-512, two of NEON."""

WIDE = 6
"""Columns that `update` treats at a time."""

_CACHE_LINE = 16  # numbers in a cache line
_LOG2_E = np.float32(1.4426950408889634)
_MAX_SCORE = np.float32(30)  # beyond it the gradient is less than 1e-13
_FLOAT = ir.FloatType()
_VECTOR = ir.VectorType(_FLOAT, LANES)
_INT = ir.IntType(64)

Floats = npt.NDArray[np.float32]


def padded(dim: int) -> int:
    """Return the length of a row in memory: `dim` rounded up to a multiple of `LANES`; numbers beyond `dim` stay zero."""
    return -(-dim // LANES) * LANES


def _at(builder: Any, address: Any, offset: Any, kind: Any) -> Any:
    """Return a pointer to the place `offset` floats behind an address."""
    place = builder.add(address, builder.shl(offset, _INT(2)))
    return builder.inttoptr(place, kind.as_pointer())


def _load(builder: Any, address: Any, offset: Any) -> Any:
    number = builder.load(_at(builder, address, offset, _VECTOR))
    number.align = 4
    return number


def _store(builder: Any, value: Any, address: Any, offset: Any) -> None:
    builder.store(value, _at(builder, address, offset, _VECTOR)).align = 4


def _fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """`a * b + c`, rounded once."""
    return builder.call(_intrinsic(builder, _VECTOR, [_VECTOR] * 3, f"llvm.fma.v{LANES}f32"), [a, b, c])


def _zero(builder: Any) -> Any:
    """A vector of zeros on the stack, which the compiler keeps in a register."""
    return _held(builder, ir.Constant(_VECTOR, [0.0] * LANES))


def _held(builder: Any, value: Any) -> Any:
    """A vector on the stack, set again whenever this point is passed."""
    place = cgutils.alloca_once(builder, _VECTOR)  # type: ignore[no-untyped-call]
    builder.store(value, place)
    return place


def _intrinsic(builder: Any, result: Any, arguments: list[Any], name: str) -> Any:
    """A function that LLVM knows."""
    kind = ir.FunctionType(result, arguments)
    return cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]


def _spread(builder: Any, scalar: Any) -> Any:
    """A vector of one number over and over."""
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), mask)


def _sum(builder: Any, vector: Any) -> Any:
    """Return the sum of the lanes of a SIMD vector: halves are added three times."""
    kind = ir.VectorType(ir.IntType(32), LANES)
    for half in (4, 2, 1):
        order = [(lane + half) % LANES for lane in range(LANES)]
        vector = builder.fadd(vector, builder.shuffle_vector(vector, vector, ir.Constant(kind, order)))
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))


def _places(builder: Any, end: Any, step: int) -> Any:
    """A loop over 0, step, 2 * step, … below `end`."""
    return cgutils.for_range_slice(builder, _INT(0), end, _INT(step), inc=True)


def _word(builder: Any, address: Any, index: Any) -> Any:
    """The `index`-th address of a list of addresses."""
    place = builder.add(address, builder.shl(index, _INT(3)))
    return builder.load(builder.inttoptr(place, _INT.as_pointer()))


def _dots(_: Any, rows: Any, n_rows: Any, columns: Any, n_columns: Any, length: Any, scores: Any, stride: Any) -> Any:
    """Compute dot products of all `rows` with all `columns` by SIMD, (n_rows, stride) at `scores`.

    Counts are rounded up to 2 and 3.

    Lists of addresses are filled up by repeating any address, and `scores` has room for the product of the rounded counts.
    """

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        rows, n_rows, columns, n_columns, length, scores, stride = values
        with _places(builder, n_rows, 2) as (r, _):
            # six sums of two rows and three columns, in registers
            x = [_word(builder, rows, builder.add(r, _INT(i))) for i in range(2)]
            with _places(builder, n_columns, 3) as (c, _):
                y = [_word(builder, columns, builder.add(c, _INT(i))) for i in range(3)]
                sums = [_zero(builder) for _ in range(6)]
                with _places(builder, length, LANES) as (d, _):
                    xs = [_load(builder, one, d) for one in x]
                    ys = [_load(builder, one, d) for one in y]
                    for i in range(2):
                        for j in range(3):
                            place = sums[3 * i + j]
                            builder.store(_fma(builder, xs[i], ys[j], builder.load(place)), place)
                # their lanes added up
                for i in range(2):
                    row = builder.mul(builder.add(r, _INT(i)), stride)
                    for j in range(3):
                        offset = builder.add(row, builder.add(c, _INT(j)))
                        builder.store(
                            _sum(builder, builder.load(sums[3 * i + j])), _at(builder, scores, offset, _FLOAT)
                        )
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7), code


def _update(_: Any, rows: Any, sums: Any, n_rows: Any, columns: Any, weights: Any, stride: Any, length: Any) -> Any:
    """Compute by SIMD `sums[i] = start[i] + Σ_j w_ij column_j` and `column_j += Σ_i w_ij row_i`; six columns.

    `sums` may be the list of rows itself: each is then changed in place. Otherwise sums are added to.
    """

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        rows, sums, n_rows, columns, weights, stride, length = values
        # some lanes of all six columns are held while the rows pass by
        y = [_word(builder, columns, _INT(j)) for j in range(WIDE)]
        with _places(builder, length, LANES) as (d, _):
            old = [_load(builder, one, d) for one in y]
            new = [_held(builder, value) for value in old]
            with cgutils.for_range(builder, n_rows) as loop:
                x = _load(builder, _word(builder, rows, loop.index), d)
                target = _word(builder, sums, loop.index)
                total = _load(builder, target, d)
                row = builder.mul(loop.index, stride)
                # both sides by the values from before
                for j in range(WIDE):
                    weight = builder.load(_at(builder, weights, builder.add(row, _INT(j)), _FLOAT))
                    weight = _spread(builder, weight)
                    total = _fma(builder, weight, old[j], total)
                    builder.store(_fma(builder, weight, x, builder.load(new[j])), new[j])
                _store(builder, total, target, d)
            for place, one in zip(new, y, strict=True):
                _store(builder, builder.load(place), one, d)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7), code


def _elementwise(combine: Callable[..., Any], n_rows: int, n_scalars: int = 0) -> Any:
    """Make a SIMD operation that goes through rows once and writes the first."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        addresses, scalars, length = values[:n_rows], values[n_rows:-1], values[-1]
        spread = [_spread(builder, scalar) for scalar in scalars]
        with _places(builder, length, LANES) as (d, _):
            loaded = [_load(builder, address, d) for address in addresses]
            _store(builder, combine(builder, *loaded, *spread), addresses[0], d)
        return context.get_dummy_value()

    return types.void(*[types.int64] * n_rows, *[types.float32] * n_scalars, types.int64), code


def _add_row(_: Any, target: Any, source: Any, scale: Any, length: Any) -> Any:
    """`target += scale * source`."""
    return _elementwise(lambda b, t, s, scale: _fma(b, s, scale, t), 2, 1)


def _copy_row(_: Any, target: Any, source: Any, length: Any) -> Any:
    """`target = source`."""
    return _elementwise(lambda b, t, s: s, 2)


def _add_difference(_: Any, target: Any, new: Any, old: Any, length: Any) -> Any:
    """`target += new - old`."""
    return _elementwise(lambda b, t, new, old: b.fadd(t, b.fsub(new, old)), 3)


def _mean_row(_: Any, target: Any, rows: Any, n_rows: Any, scale: Any, length: Any) -> Any:
    """Compute by SIMD `target = scale * Σ rows`."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        target, rows, n_rows, scale, length = values
        scale = _spread(builder, scale)
        with _places(builder, length, LANES) as (d, _):
            total = _zero(builder)
            with cgutils.for_range(builder, n_rows) as loop:
                x = _load(builder, _word(builder, rows, loop.index), d)
                builder.store(builder.fadd(builder.load(total), x), total)
            _store(builder, builder.fmul(scale, builder.load(total)), target, d)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.float32, types.int64), code


def _fetch(_: Any, address: Any, length: Any) -> Any:
    """Ask for a row's cache lines for SIMD, to be written; the work goes on meanwhile."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        address, length = values
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        prefetch = _intrinsic(builder, ir.VoidType(), [byte, flag, flag, flag], "llvm.prefetch.p0")
        with _places(builder, length, _CACHE_LINE) as (d, _):
            place = _at(builder, address, d, ir.IntType(8))
            builder.call(prefetch, [place, flag(1), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), code


dots: Callable[..., None] = intrinsic(_dots)
update: Callable[..., None] = intrinsic(_update)
add_row: Callable[..., None] = intrinsic(_add_row)
copy_row: Callable[..., None] = intrinsic(_copy_row)
add_difference: Callable[..., None] = intrinsic(_add_difference)
mean_row: Callable[..., None] = intrinsic(_mean_row)
fetch: Callable[..., None] = intrinsic(_fetch)


def _power_of_two(_: Any, exponent: Any) -> Any:
    """2 to a whole power from -126 to 127, float32."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.IntType(32)
        bits = builder.shl(builder.add(values[0], kind(127)), kind(23))
        return builder.bitcast(bits, ir.FloatType())

    return types.float32(types.int32), code


_power: Callable[[np.int32], np.float32] = intrinsic(_power_of_two)  # type: ignore[assignment]


@inlined
def exponential(x: np.float32) -> np.float32:
    """Return the power x of e, |x| up to 80, within 3e-7, in a form that becomes SIMD instructions."""
    y = x * _LOG2_E
    whole = np.int32(y + (np.float32(0.5) if y >= 0 else np.float32(-0.5)))
    z = (y - np.float32(whole)) * np.float32(0.6931471805599453)
    p = np.float32(1 / 720)
    p = p * z + np.float32(1 / 120)
    p = p * z + np.float32(1 / 24)
    p = p * z + np.float32(1 / 6)
    p = p * z + np.float32(1 / 2)
    p = p * z + np.float32(1)
    p = p * z + np.float32(1)
    return p * _power(whole)


@inlined
def gradients(
    scores: Floats, n_rows: int, stride: int, n_columns: int, signs: Floats, rates: Floats, likelihoods: Floats
) -> None:
    """Turn scores into the weights of an update, in place, in SIMD instructions.

    With y = sign * score, the loss of a pair is -log s(y), s the logistic function, and its derivative by the score is
    -sign * (1 - s(y)).

    Args:
        scores: (n_rows, stride), flat; becomes rate * sign * (1 - s(y)).
        n_rows: rows that count.
        stride: numbers from one row to the next.
        n_columns: of each row, the first that count.
        signs: (stride,) 1 for what was there, -1 for noise.
        rates: (stride,) learning rate, times how often the column was drawn; 0 where there is no column.
        likelihoods: (n_rows, stride), flat; becomes s(y).
    """
    for row in range(n_rows):
        for column in range(n_columns):
            at = row * stride + column
            y = signs[column] * scores[at]
            y = min(max(y, -_MAX_SCORE), _MAX_SCORE)
            e = exponential(-y)
            likelihood = np.float32(1) / (np.float32(1) + e)
            likelihoods[at] = likelihood
            scores[at] = rates[column] * signs[column] * (e * likelihood)
