"""What an algorithm needs to go on from a step: data only, never code."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from buttress._types import Rng

# By name: arrays, numbers, text, None, and lists and mappings of these. A partial, called when the value is written,
# stands for what it returns.
Memory: TypeAlias = Mapping[str, Any]


def rng_state(rng: Rng) -> Memory:
    """Return the state of a random generator, as part of a memory."""
    if isinstance(rng, np.random.RandomState):
        return dict(rng.get_state(legacy=False))
    return dict(rng.bit_generator.state)


def set_rng_state(rng: Rng, state: Memory) -> None:
    """Put a random generator into a state that ``rng_state`` returned."""
    if isinstance(rng, np.random.RandomState):
        rng.set_state(dict(state))
    else:
        rng.bit_generator.state = state
