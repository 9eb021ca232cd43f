"""What holds for all tests: a model without a seed draws the same numbers whenever and beside whatever it runs."""

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    np.random.seed(0)  # noqa: NPY002 - scikit-learn's random_state=None
