"""Compiled bodies of `marginshot.model.primitives`, which says what they do and why they exist twice."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import overload

from marginshot._lib.jit import CALL_OPTIONS
from marginshot.model import primitives
from marginshot.model.primitives import LEAST_PROBABILITY
from marginshot.solvers.exponentials_compiled import decay as _decay
from marginshot.solvers.exponentials_compiled import log1p as _log1p
from marginshot.solvers.lbfgs_compiled import multiply as _multiply_rows


def _compiled(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let numba take the body below wherever the model calls ``function``."""

    def register(body: Callable[..., Any]) -> Callable[..., Any]:
        names = ", ".join(body.__code__.co_varnames[: body.__code__.co_argcount])
        overload(function, jit_options=CALL_OPTIONS)(eval(f"lambda {names}: body", {"body": body}))
        return body

    return register


@_compiled(primitives.multiply)
def _multiply(coef, gram):  # type: ignore[no-untyped-def]
    weights, products = np.empty(coef.shape[1], gram.dtype), np.empty(gram.shape[1], gram.dtype)
    wide = np.empty((coef.shape[0], gram.shape[1]))
    for c in range(coef.shape[0]):
        for i in range(coef.shape[1]):
            weights[i] = coef[c, i]
        _multiply_rows(gram, weights, products)  # for few classes faster than BLAS
        for i in range(products.shape[0]):
            wide[c, i] = products[i]
    return wide


@_compiled(primitives.affine)
def _affine(matrix, scale, shift):  # type: ignore[no-untyped-def]
    out = np.empty(matrix.shape)
    for c in range(matrix.shape[0]):
        row, target, factor, constant = matrix[c], out[c], scale[c], shift[c]
        for i in range(row.shape[0]):
            target[i] = row[i] * factor + constant
    return out


@_compiled(primitives.add_columns)
def _add_columns(matrix, shift):  # type: ignore[no-untyped-def]
    out = np.empty(matrix.shape)
    for c in range(matrix.shape[0]):
        row, target = matrix[c], out[c]
        for i in range(row.shape[0]):
            target[i] = row[i] + shift[i]
    return out


@_compiled(primitives.add)
def _add(left, right):  # type: ignore[no-untyped-def]
    out = np.empty(left.shape)
    for c in range(left.shape[0]):
        a, b, target = left[c], right[c], out[c]
        for i in range(a.shape[0]):
            target[i] = a[i] + b[i]
    return out


@_compiled(primitives.normalise)
def _normalise(matrix):  # type: ignore[no-untyped-def]
    out, total = np.empty(matrix.shape), np.zeros(matrix.shape[1])
    for c in range(matrix.shape[0]):
        row = matrix[c]
        for i in range(row.shape[0]):
            total[i] += row[i]
    for c in range(matrix.shape[0]):
        row, target = matrix[c], out[c]
        for i in range(row.shape[0]):
            target[i] = row[i] / total[i]
    return out


@_compiled(primitives.sum_rows)
def _sum_rows(matrix):  # type: ignore[no-untyped-def]
    out = np.empty(matrix.shape[0])
    for c in range(matrix.shape[0]):
        total, row = 0.0, matrix[c]
        for i in range(row.shape[0]):
            total += row[i]
        out[c] = total
    return out


@_compiled(primitives.sum_products)
def _sum_products(left, right):  # type: ignore[no-untyped-def]
    out = np.empty(left.shape[0])
    for c in range(left.shape[0]):
        total, a, b = 0.0, left[c], right[c]
        for i in range(a.shape[0]):
            total += a[i] * b[i]
        out[c] = total
    return out


@_compiled(primitives.decay)
def _decay_columns(logits):  # type: ignore[no-untyped-def]
    out, top = np.empty(logits.shape), logits[0].copy()
    for c in range(1, logits.shape[0]):
        row = logits[c]
        for i in range(row.shape[0]):
            top[i] = max(top[i], row[i])
    for c in range(logits.shape[0]):
        row, target = logits[c], out[c]
        for i in range(row.shape[0]):
            target[i] = _decay(row[i] - top[i], np.float64)
    return out


@_compiled(primitives.responsibility_sums)
def _responsibility_sums(likelihood, factors):  # type: ignore[no-untyped-def]
    total, sums = np.zeros(likelihood.shape[1]), np.empty(len(factors))
    for c in range(len(factors)):
        row, factor = likelihood[c], factors[c]
        for i in range(row.shape[0]):
            total[i] += factor * row[i]
    for i in range(total.shape[0]):
        total[i] = 1.0 / total[i]
    for c in range(len(factors)):
        share, row = 0.0, likelihood[c]
        for i in range(row.shape[0]):
            share += row[i] * total[i]
        sums[c] = share
    return sums


@_compiled(primitives.entropy)
def _entropy(probabilities):  # type: ignore[no-untyped-def]
    total = 0.0
    for c in range(probabilities.shape[0]):
        for p in probabilities[c]:
            total -= p * math.log(max(p, LEAST_PROBABILITY))
    return total


@_compiled(primitives.leave_out)
def _leave_out(squares, weights, sizes):  # type: ignore[no-untyped-def]
    out = np.empty(squares.shape)
    for c in range(squares.shape[0]):
        row, weight, target, size = squares[c], weights[c], out[c], sizes[c]
        for i in range(row.shape[0]):
            ratio = size / (size - weight[i])
            target[i] = row[i] * ratio * ratio
    return out


@_compiled(primitives.average)
def _average(rows, stored, nearest, weight):  # type: ignore[no-untyped-def]
    n_rows, k = nearest.shape
    if k == 0:
        return rows.copy()
    real = rows.dtype.type
    share, own = real(weight / k), real(1.0 - weight)
    out = np.empty(rows.shape, rows.dtype)
    for i in range(n_rows):
        target, row = out[i], rows[i]
        for j in range(row.shape[0]):
            target[j] = own * row[j]
        for place in range(k):
            row = stored[nearest[i, place]]
            for j in range(row.shape[0]):
                target[j] += share * row[j]
    return out


@_compiled(primitives.centre_and_scale)
def _centre_and_scale(gram, least):  # type: ignore[no-untyped-def]
    n_rows = gram.shape[0]
    shift, lengths = np.empty(n_rows, gram.dtype), np.empty(n_rows, gram.dtype)
    scale, total, longest = np.zeros(n_rows, gram.dtype), 0.0, 0.0
    for i in range(n_rows):
        row_total, row = gram.dtype.type(0.0), gram[i]
        for j in range(n_rows):
            row_total += row[j]
        shift[i] = row_total / n_rows
        total += shift[i] / n_rows
    for i in range(n_rows):
        shift[i] -= 0.5 * total
        lengths[i] = math.sqrt(max(gram[i, i] - 2.0 * shift[i], 0.0))
        longest = max(longest, lengths[i])
    for i in range(n_rows):
        if lengths[i] > least * longest:
            scale[i] = 1.0 / lengths[i]
    for i in range(n_rows):
        row = gram[i]
        for j in range(n_rows):
            row[j] = (row[j] - shift[i] - shift[j]) * (scale[i] * scale[j])
    return lengths


@_compiled(primitives.gram_sums)
def _gram_sums(gram):  # type: ignore[no-untyped-def]
    n_rows, total_square = gram.shape[0], 0.0
    diagonal, means = np.empty(n_rows), np.empty(n_rows)
    for i in range(n_rows):
        total, square, row = 0.0, 0.0, gram[i]
        for j in range(n_rows):
            total += np.float64(row[j])
            square += np.float64(row[j]) * np.float64(row[j])
        diagonal[i], means[i] = row[i], total / n_rows
        total_square += square
    return diagonal, means, total_square


@_compiled(primitives.edge_statistics)
def _edge_statistics(squares, least):  # type: ignore[no-untyped-def]
    total, logs, n_rows, n_pairs = 0.0, 0.0, 0, 0
    last = squares.shape[1] - 1
    for i in range(squares.shape[0]):
        nearest = np.inf
        for place in range(squares.shape[1]):
            square = squares[i, place]
            if square > least:
                nearest = min(nearest, square)
                if place < last:
                    logs += 0.5 * math.log(max(squares[i, last], least) / square)
                    n_pairs += 1
        if nearest < np.inf:
            total += nearest
            n_rows += 1
    return total / n_rows if n_rows else 0.0, logs / n_pairs if n_pairs else 0.0


@_compiled(primitives.log_shares)
def _log_shares(matrix, least, doubt):  # type: ignore[no-untyped-def]
    out = np.empty(matrix.shape)
    for i in range(matrix.shape[0]):
        total, row, target = 0.0, matrix[i], out[i]
        for c in range(row.shape[0]):
            total += max(row[c], 0.0)
        scale = 1.0 / total if total > least else 0.0
        for c in range(row.shape[0]):
            target[c] = math.log(scale * max(row[c], 0.0) + doubt)
    return out


@_compiled(primitives.logistic_sums)
def _logistic_sums(x, targets, weights, slope, intercept):  # type: ignore[no-untyped-def]
    value, g_slope, g_intercept, h_ss, h_si, h_ii = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(x.shape[0]):
        z = slope * x[i] + intercept
        small = _decay(-abs(z), np.float64)
        p = (1.0 if z >= 0.0 else small) / (1.0 + small)
        residual, spread = weights[i] * (p - targets[i]), weights[i] * p * (1.0 - p)
        value += weights[i] * (max(z, 0.0) + _log1p(small, np.float64) - targets[i] * z)
        g_slope += residual * x[i]
        g_intercept += residual
        h_ss += spread * x[i] * x[i]
        h_si += spread * x[i]
        h_ii += spread
    return value, g_slope, g_intercept, h_ss, h_si, h_ii
