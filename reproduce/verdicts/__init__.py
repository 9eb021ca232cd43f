"""Small experiments that decide statements of the sources: each prints figures, which the claims pages state."""
