"""Allowances for rounding in the certificates are those that their docstrings derive, no less and no more."""

from fractions import Fraction

import pytest

from buttress._proof import sum_error


@pytest.mark.parametrize("bits", [53, 24])
@pytest.mark.parametrize("terms", [0, 1, 7, 10**6])
def test_a_sum_is_off_by_its_roundings(terms, bits):
    """gamma_n of Higham, n the terms and 16, and at most twice that."""
    u, n = Fraction(1, 2**bits), terms + 16
    error = Fraction(sum_error(terms, 2.0**-bits * 2))
    assert n * u / (1 - n * u) <= error <= 2 * n * u
    assert bits != 53 or Fraction(sum_error(terms)) == error
