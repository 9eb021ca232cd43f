"""The parameters ``checkpoint`` and ``resume`` of an estimator, as one decorator of its ``fit``."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from buttress._checks import check_option
from buttress.checkpoints.fingerprint import Fingerprint, differences, fingerprint
from buttress.checkpoints.folder import Folder
from buttress.checkpoints.journal import Journal, journal_of_fit
from buttress.checkpoints.memory import rng_state, set_rng_state

F = TypeVar("F", bound=Callable[..., Any])

FIT = "fit"  # the name of what is kept of the fit itself


def resumable(fit: F) -> F:
    """Decorate the fit of an estimator with the parameters ``checkpoint`` and ``resume``.

    With ``checkpoint=folder`` its runs keep there, every few seconds, what they need to go on. With ``resume=True`` it
    goes on from what a fit that was killed has left, and ends in the same bits; ValueError where that was a fit with
    other data or parameters, or under other versions or threads. A whole fit removes its files.
    """
    named = inspect.signature(fit)

    @functools.wraps(fit)
    def recorded(model: Any, *args: Any, **kwargs: Any) -> Any:
        check_option("resume", model.resume, (False, True, "approximately"))
        if model.checkpoint is None:
            if model.resume:
                raise ValueError(f"resume={model.resume!r} needs a checkpoint. Got checkpoint=None. Name a folder.")
            return fit(model, *args, **kwargs)
        bound = list(named.bind(model, *args, **kwargs).arguments.items())[1:]
        data = {name: value for name, value in bound if value is not None}  # y=None is no other fit than no y
        folder = Folder(model.checkpoint)
        with folder.held():
            journal = taken_up(folder, model.resume, fingerprint(model, data), _global_rng(model))
            with journal_of_fit(journal):
                fitted = fit(model, *args, **kwargs)
            if not journal.cut:
                journal.clear()
                folder.remove(FIT)
        return fitted

    return cast(F, recorded)


def _global_rng(model: object) -> np.random.RandomState | None:
    """Return numpy's global generator where the fit draws from it."""
    draws = getattr(model, "_draws", True) and hasattr(model, "random_state") and model.random_state is None
    return np.random.mtrand._rand if draws else None


def taken_up(
    folder: Folder, resume: bool | str, now: Callable[[], Fingerprint], rng: np.random.RandomState | None
) -> Journal:
    """Return the journal of a fit, with what the folder holds of it, or empty where the fit starts anew.

    A global generator is put into the state in which the first fit found it. The fingerprint of a fit that starts anew
    is written with its first records, so that a short fit pays for none. ValueError where the folder is of another fit.
    """
    journal = Journal(folder)
    kept = folder.read(FIT) if resume else None
    if kept is None:
        journal.clear()
        folder.remove(FIT)
        state = None if rng is None else rng_state(rng)
        journal.opening = lambda: folder.write(FIT, {"fingerprint": now(), "rng": state})
        return journal
    current, then = now(), kept["fingerprint"]
    others = [*differences(current, then, "parameters"), *differences(current, then, "data")]
    if others:
        raise ValueError(f"checkpoint={str(folder.path)!r} is of another fit: {'; '.join(others)}. Delete the "
                         "folder, or use resume=False, to start anew in its place, or name another one.")
    elsewhere = differences(current, then, "environment")
    if elsewhere and resume != "approximately":
        raise ValueError(f"checkpoint={str(folder.path)!r} was written elsewhere, where numbers are rounded otherwise: "
                         f"{'; '.join(elsewhere)}. Delete the folder to start anew. An estimator with "
                         "resume='approximately' goes on from it all the same: the model then meets the tolerance, but "
                         "is not the same to the bit.")
    if rng is not None and kept["rng"] is not None:
        set_rng_state(rng, kept["rng"])
    journal.load()
    return journal
