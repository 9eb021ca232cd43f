"""How many centres a kernel machine gets that is trained against attacks."""

MOST_CENTRES = 300  # the default
CENTRES_A_CLASS = 50  # the default of machines whose centres are trained, where that is more


def centre_count(n_landmarks: int | str | None, n: int, trained_classes: int = 0) -> int:
    """Return how many of n rows are centres: all for None; for "auto" 300, or 50 a class that is told apart by them."""
    if n_landmarks is None:
        return n
    if isinstance(n_landmarks, str):
        return min(n, max(MOST_CENTRES, CENTRES_A_CLASS * trained_classes))
    return min(n, n_landmarks)
