"""From a margin oracle to certified coefficients: cutting planes and the certified solver."""
