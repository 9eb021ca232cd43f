"""Compiled functions: a signature is compiled when first called for, and no other types are taken."""

import numpy as np
import pytest

from buttress._compiling import Compiled

SIGNATURES = ["float64(float64[::1])", "float32(float32[::1])"]


def total(x):
    found = x.dtype.type(0)
    for value in x:
        found += value
    return found


def made(function=total, signatures=SIGNATURES):
    return Compiled(function, signatures, {"error_model": "numpy"})


def test_each_signature_is_compiled_at_its_first_call():
    compiled = made()
    assert compiled._left == SIGNATURES
    assert compiled(np.arange(4.0)) == 6
    assert compiled._left == SIGNATURES[1:]
    assert compiled(np.arange(4.0, dtype=np.float32)) == 6
    assert compiled._left == []
    assert compiled.__name__ == "total"


@pytest.mark.parametrize("wrong", [np.arange(4), np.arange(8.0)[::2], np.ones((2, 2))],
                         ids=["whole numbers", "steps", "matrix"])
def test_other_types_are_refused_before_and_after(wrong):
    compiled = made()
    for _ in range(2):
        with pytest.raises(TypeError, match="No matching definition"):
            compiled(wrong)
    assert compiled(np.arange(4.0)) == 6


def test_compiled_functions_call_each_other():
    inner = made()

    def twice(x):
        return 2 * inner(x)

    assert made(twice, SIGNATURES[:1])(np.arange(4.0)) == 12
