"""How sure a fitted model is, from what its fit leaves out: intervals of targets and p-values of novel rows."""
