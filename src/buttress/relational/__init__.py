"""Learning over a join of tables that is never materialised.

    F(beta) = (1/W) sum over rows x of the join of w(x) max(0, 1 - y(x) beta.x) + alpha ||beta||^2

is evaluated by counting rows along the join tree; every evaluation bounds the optimum from both sides.
"""

import importlib
from typing import Any

_HOME = {
    "EntityFeatures": "entities.transformer",
    "Join": "declare",
    "JoinSampler": "sampling",
    "RelationalLinearSVC": "svm",
    "Semiring": "counting.lists",
    "SourceChangedError": "sources.databases",
    "SourceLostError": "sources.databases",
    "Table": "declare",
    "alpha_path": "path",
    "cross_validate": "path",
    "entity_table": "entities.transformer",
    "evaluate": "evaluation",
    "describe": "choice",
    "read_join": "command",
    "score_thresholds": "evaluation",
    "semiring": "evaluation",
}

__all__ = ["EntityFeatures", "Join", "JoinSampler", "RelationalLinearSVC", "Semiring", "SourceChangedError",
           "SourceLostError", "Table", "alpha_path", "cross_validate", "entity_table", "evaluate", "describe",
           "read_join", "score_thresholds", "semiring"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
