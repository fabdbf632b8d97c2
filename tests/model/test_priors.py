"""The offset and the shares behind it, and the last weight of the queries."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from marginshot.model.shares import offsets, starting_prior


def test_the_offset_is_the_mean_label_of_a_class():
    assert_allclose(offsets("uniform", starting_prior("uniform", 5)), -0.6)
    assert_array_equal(offsets(None, starting_prior(None, 5)), 0)
    assert_allclose(offsets("given", starting_prior([0.5, 0.3, 0.2], 3)), [0.0, -0.4, -0.6])


@pytest.mark.parametrize("shares", [[0.5, 0.4], [0.7, 0.4, -0.1], [0.5, np.nan, 0.5], [1.0]])
def test_a_prior_that_is_none_is_refused_with_its_value(shares):
    with pytest.raises(ValueError, match="prior must"):
        starting_prior(shares, 3)
