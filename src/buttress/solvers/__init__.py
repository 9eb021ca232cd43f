"""One algorithm a file, each a generator of steps; ``run`` alone loops over them."""
