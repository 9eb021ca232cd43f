"""Methods of others for corrupt training data, as published: risks that trim, SEVER, CRR, STIR, trimmed likelihood."""
