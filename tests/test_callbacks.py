"""scikit-learn's callbacks (1.9 and later) see our iterations and may stop them."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress import SVC, AdversarialSVC, KernelClassifier

from problems import breast_cancer, moons

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")


class Counter:
    """Counts iterations, and asks to stop after ``most``."""

    def __init__(self, most=np.inf):
        self.most = most
        self.seen = 0

    def setup(self, estimator, context):
        self.ready = True

    def teardown(self, estimator, context):
        self.done = True

    def on_fit_task_begin(self, estimator, context, **rest):
        pass

    def on_fit_task_end(self, estimator, context, **rest):
        self.seen += context.task_name == "iteration"
        return self.seen >= self.most


MOVED = AdversarialSVC(defense="input", max_iter=50, random_state=0)


@pytest.mark.parametrize("estimator", [SVC(), KernelClassifier(), MOVED], ids=lambda e: type(e).__name__)
def test_callbacks_see_every_step_and_stop(estimator):
    X, y = breast_cancer()
    counter = Counter()
    steps = len(estimator.set_callbacks(counter).fit(X, y).history_)
    assert counter.seen >= steps > 1
    assert counter.done
    stopped = Counter(most=2)
    model = estimator.set_callbacks(stopped).fit(X, y)
    assert len(model.history_) == 2
    assert np.isfinite(model.decision_function(X)).all()


def test_callbacks_see_the_fit_that_is_kept_and_no_trial():
    X, y = moons(40)
    counter = Counter()
    model = AdversarialSVC(max_iter=10, n_landmarks=10, random_state=0).set_callbacks(counter).fit(X, y)
    assert counter.seen == len(model.history_)


def test_callbacks_work_inside_a_pipeline():
    X, y = breast_cancer()
    counter = Counter()
    model = make_pipeline(StandardScaler(), KernelClassifier().set_callbacks(counter)).fit(X, y)
    assert counter.seen == len(model[-1].history_)


class Heard(Counter):
    """Keeps the names of the tasks that end, and interrupts the first iteration if told to."""

    def __init__(self, interrupt=False):
        super().__init__()
        self.interrupt = interrupt
        self.ended = []

    def on_fit_task_end(self, estimator, context, **rest):
        if self.interrupt:
            raise KeyboardInterrupt
        self.ended.append(context.task_name)
        return False


def test_the_end_of_a_fit_is_heard_once_and_last():
    X, y = breast_cancer()
    heard = Heard()
    model = KernelClassifier().set_callbacks(heard).fit(X, y)
    assert heard.ended == ["iteration"] * len(model.history_) + ["fit"]


def test_callbacks_are_torn_down_when_a_fit_is_interrupted():
    X, y = breast_cancer()
    heard = Heard(interrupt=True)
    model = KernelClassifier().set_callbacks(heard)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, np.arange(len(y)) % 3)
    assert heard.done


def test_a_scoring_monitor_logs_the_score_of_the_fitted_model():
    X, y = breast_cancer()
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = SVC().set_callbacks(monitor).fit(X, y)
    logged = monitor.get_logs().data
    assert [row["accuracy"] for row in logged if row["task_name"] == "fit"] == [model.score(X, y)]
