"""The smallest ball around rows in feature space, of one kernel or of a mixture whose weights are learned."""
