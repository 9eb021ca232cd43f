"""Small audited tables with planted errors for the tests of reviews."""

from functools import cache

import numpy as np
import pandas as pd

import buttress

SCRIPT = "<script>window.hit=1</script>"
TAG = "</script><img src=x onerror='window.hit=1'>"


@cache
def audited(task="classification"):
    """An audit of 160 rows, 16 of whose targets are wrong, its frame, the true targets, and which are wrong."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=160), SCRIPT: rng.normal(size=160), "c": rng.choice([TAG, "plain"], 160)})
    wrong = np.isin(np.arange(160), rng.permutation(160)[:16])
    if task == "classification":
        true = np.where(X["size"] > 0, "yes", TAG)
        given = np.where(wrong, np.where(true == "yes", TAG, "yes"), true)
    else:
        true = np.round(3 * X["size"].to_numpy() + 0.2 * rng.normal(size=160), 3)
        given = np.where(wrong, true + 7, true)
    result = buttress.audit(None, X, given, effort="quick", target_name="y")
    return result, X.assign(y=given), true, wrong


def settle(review):
    """Wait until the rows are ranked and wrong cells found."""
    review._cells.result()
    if review._running is not None:
        review._running.result()
