"""scikit-learn's callbacks (1.9 and later) see our iterations and may stop them."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress import (
    SVC,
    SVDD,
    SVR,
    AdversarialLinearSVC,
    AdversarialSVC,
    AdvSVM,
    CertifiedSVC,
    FreeRangeSVC,
    KernelClassifier,
    KernelRegressor,
    LinearSVC,
    MultiKernelSVDD,
    RobustKernelClassifier,
    RobustKernelRegressor,
    RobustLinearRegressor,
    StochasticAdvSVM,
    StochasticLinearSVC,
    Subquantile,
)

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


MOVED = AdversarialSVC(max_iter=50, random_state=0)


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


def wavy():
    """A curve with a fifth of the targets corrupt."""
    X = np.linspace(-3, 3, 60)[:, None]
    y = np.sin(X[:, 0])
    y[::5] += 4.0
    return X, y


def mislabelled():
    X, y = moons(80)
    y = y.copy()
    y[::8] = 1 - y[::8]
    return X, y


CLASSIFIERS = [
    SVC(gamma=1.0),
    SVC(gamma=1.0, solver="ipm"),
    SVC(gamma=1.0, indefinite="flip", kernel="sigmoid"),
    LinearSVC(),
    LinearSVC(solver="dual", max_iter=50),
    StochasticLinearSVC(max_iter=3, random_state=0),
    FreeRangeSVC(),
    AdversarialLinearSVC(),
    KernelClassifier(max_iter=5),
    KernelClassifier(kernel="linear", max_iter=5),
    AdversarialSVC(max_iter=20, n_landmarks=10, random_state=0),
    CertifiedSVC(max_iter=20, n_landmarks=10, random_state=0),
    AdvSVM(),
    StochasticAdvSVM(n_features=None, batch_size=20, random_state=0),
    StochasticAdvSVM(batch_size=20, n_features=64, random_state=0),
    RobustKernelClassifier(random_state=0),
]
REGRESSORS = [
    SVR(gamma=1.0),
    KernelRegressor(max_iter=5),
    RobustKernelRegressor(random_state=0),
    RobustLinearRegressor(random_state=0),
]
BALLS = [SVDD(nu=0.2, gamma=1.0), SVDD(nu=0.2, gamma=1.0, contamination=0.1), MultiKernelSVDD(nu=0.2)]
EACH = [*((model, mislabelled) for model in CLASSIFIERS), *((model, wavy) for model in REGRESSORS),
        *((model, mislabelled) for model in BALLS)]
pytestmark = [pytest.mark.filterwarnings("ignore::buttress.NotConvergedWarning"),
              pytest.mark.filterwarnings("ignore::buttress.FeatureNoiseWarning"),
              pytest.mark.filterwarnings("ignore::UserWarning")]


def named(case):
    return type(case).__name__ if hasattr(case, "fit") else ""


def scored(model, X, y):
    """A score that every kind of model has, and that a small change of the model moves."""
    values = model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)
    return float(np.sum(values * np.arange(len(values))))


@pytest.mark.parametrize(("model", "data"), EACH, ids=named)
def test_a_scoring_monitor_logs_a_score_of_each_step(model, data):
    X, y = data()
    monitor = callback.ScoringMonitor(scoring={"score": scored})
    model.set_callbacks(monitor).fit(X, y)
    rows = monitor.get_logs().data
    steps = [row["score"] for row in rows if row["task_name"] == "iteration"]
    end = [row["score"] for row in rows if row["task_name"] == "fit"]
    assert len(steps) >= 1
    assert len(steps) == len(getattr(model, "history_", steps))
    assert end == [scored(model, X, y)]
    assert np.isfinite(steps).all()


@pytest.mark.parametrize("model", [
    LinearSVC(tol=1e-8), KernelClassifier(), KernelRegressor(risk=Subquantile(0.8)), FreeRangeSVC(),
    AdversarialSVC(max_iter=20, n_landmarks=10, random_state=0),
    CertifiedSVC(max_iter=20, n_landmarks=10, random_state=0),
    StochasticAdvSVM(n_features=None, batch_size=20, random_state=0),
], ids=named)
def test_the_last_step_of_a_run_is_the_model_where_it_is_the_best(model):
    X, y = wavy() if isinstance(model, KernelRegressor) else mislabelled()
    monitor = callback.ScoringMonitor(scoring={"score": scored})
    model.set_callbacks(monitor).fit(X, y)
    steps = [row["score"] for row in monitor.get_logs().data if row["task_name"] == "iteration"]
    assert min(abs(step - scored(model, X, y)) for step in steps) <= 1e-6 * max(1.0, abs(scored(model, X, y)))


@pytest.mark.parametrize("model", [SVC(gamma=1.0, tol=1e-6), SVR(gamma=1.0, tol=1e-6), SVDD(nu=0.2, gamma=1.0)],
                         ids=named)
def test_scores_of_steps_approach_that_of_the_model(model):
    X, y = wavy() if isinstance(model, SVR) else mislabelled()
    monitor = callback.ScoringMonitor(scoring={"score": scored})
    model.set_callbacks(monitor).fit(X, y)
    steps = [row["score"] for row in monitor.get_logs().data if row["task_name"] == "iteration"]
    away = np.abs(np.array(steps) - scored(model, X, y))
    assert away[-1] <= 1e-2 * away[0]


@pytest.mark.parametrize("model", [
    SVC(), SVC(multi_class="ovr"), LinearSVC(), KernelClassifier(max_iter=5), RobustKernelClassifier(random_state=0),
    AdvSVM(eps=0.01),
], ids=named)
def test_with_many_classes_a_step_is_a_model_once_every_class_has_a_score(model):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.array(["a", "b", "c"])[np.argmax(X @ [[1, 0, -1], [0, 1, -1]], axis=1)]
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model.set_callbacks(monitor).fit(X, y)
    rows = monitor.get_logs().data
    assert all(0 <= row["accuracy"] <= 1 for row in rows)
    assert sum(row["task_name"] == "iteration" for row in rows) >= 1


def test_callbacks_leave_the_model_as_it_is():
    X, y = mislabelled()
    for model in (SVDD(nu=0.2, gamma=1.0), MultiKernelSVDD(nu=0.2), RobustKernelClassifier(random_state=0)):
        plain = scored(model.set_callbacks().fit(X, y), X, y)
        watched = model.set_callbacks(callback.ScoringMonitor(scoring={"score": scored})).fit(X, y)
        assert scored(watched, X, y) == plain


@pytest.mark.parametrize("model", [RobustKernelClassifier(random_state=0), RobustKernelRegressor(random_state=0)],
                         ids=named)
def test_a_callback_ends_a_robust_fit_early_with_a_whole_model(model):
    X, y = wavy() if isinstance(model, RobustKernelRegressor) else mislabelled()
    full = Counter()
    model.set_callbacks(full).fit(X, y)
    stopped = Counter(most=1)
    model.set_callbacks(stopped).fit(X, y)
    assert 1 == stopped.seen < full.seen
    assert np.isfinite(model.predict(X)).all()
    assert stopped.done


def test_weights_of_zero_are_no_trouble_to_a_monitor():
    X, y = mislabelled()
    monitor = callback.ScoringMonitor(scoring="accuracy")
    LinearSVC().set_callbacks(monitor).fit(X, y, sample_weight=np.arange(len(y)) % 3)
    assert len(monitor.get_logs().data) > 1


def test_callbacks_hear_the_end_of_a_choice_of_C_and_of_none_of_its_trials():
    X, y = mislabelled()
    heard = Heard()
    SVC(C="loo").set_callbacks(heard).fit(X, y)
    assert heard.ended == ["fit"]
    assert heard.done


def test_no_limit_on_iterations_is_none_on_what_callbacks_hear():
    X, y = mislabelled()
    for most in (None, 2):
        counter = Counter()
        model = KernelClassifier(max_iter=most, tol=0.01).set_callbacks(counter).fit(X, y)
        assert counter.seen == len(model.history_)


@pytest.mark.parametrize(("model", "data"), EACH, ids=named)
def test_a_progress_bar_ends_at_the_whole(model, data, monkeypatch):
    from sklearn.callback import _progressbar

    tasks = []

    class Kept(_progressbar.RichProgressMonitor):
        def run(self):
            super().run()
            tasks.extend(self.progress_ctx.tasks)

    monkeypatch.setattr(_progressbar, "RichProgressMonitor", Kept)
    X, y = data()
    model.set_callbacks(callback.ProgressBar()).fit(X, y)
    model.set_callbacks()
    assert [task.percentage for task in tasks] == [100.0]


def test_probabilities_of_a_step_are_refused_and_never_those_of_an_earlier_fit():
    X, y = mislabelled()
    model = SVC().fit(X, y)
    assert model.predict_proba(X).shape == (len(y), 2)
    with pytest.raises(ValueError, match="step of a fit that goes on"):
        model.set_callbacks(callback.ScoringMonitor(scoring="neg_log_loss")).fit(X, y)


@pytest.mark.filterwarnings("error:X does not have valid feature names")
@pytest.mark.parametrize("model", [SVC(), LinearSVC(), RobustKernelClassifier(random_state=0), SVDD()], ids=named)
def test_names_of_columns_are_no_trouble_to_a_monitor(model):
    pandas = pytest.importorskip("pandas")
    X, y = mislabelled()
    frame = pandas.DataFrame(X, columns=["first", "second"])
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model.set_callbacks(monitor).fit(frame, y)
    assert list(model.feature_names_in_) == ["first", "second"]
    assert len(monitor.get_logs().data) > 1
