"""How sure a fitted model is: probabilities, prediction sets, p-values and intervals."""
