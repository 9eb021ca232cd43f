"""A misclassified input of a threat, or a proof: trees by search and integer programs, linear models in closed form."""
