"""From a margin oracle to certified coefficients: cutting planes, the certified solver, the published algorithm."""
