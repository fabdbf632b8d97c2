"""Seeds from what users give as random_state."""

import numpy as np
import pytest

from marginshot._lib.seeds import draw_seed


def test_a_number_is_the_seed():
    assert draw_seed(5) == draw_seed(np.int64(5)) == 5


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_a_generator_draws_another_seed_each_time(make):
    generator = make(3)
    drawn = [draw_seed(generator), draw_seed(generator)]
    assert drawn[0] != drawn[1]
    assert drawn[0] == draw_seed(make(3))


def test_none_draws_from_the_global_generator():
    np.random.seed(4)  # noqa: NPY002
    first = draw_seed(None)
    assert draw_seed(None) != first
    np.random.seed(4)  # noqa: NPY002
    assert draw_seed(None) == first


@pytest.mark.parametrize("value", [-1, True, 1.5, "zero"])
def test_anything_else_is_named(value):
    with pytest.raises(ValueError, match=f"random_state must be a whole number .* got {value!r}"):
        draw_seed(value)
