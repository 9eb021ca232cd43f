"""The linear support vector classifier over a join of tables."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from buttress._callbacks import CallbackSupportMixin, all_or_nothing, step_callback, with_callbacks
from buttress._checks import LARGEST, Array, check_number, warn_user
from buttress._proof import PROOF, proof_word
from buttress._state import Attribute, State
from buttress.certainty.probabilities import Certainty, Probabilities
from buttress.checkpoints.journal import resumable
from buttress.relational.checks import EmptyJoinError, check_total, used_columns
from buttress.relational.choice import choose_oracle
from buttress.relational.counting.margins import MarginOracle
from buttress.relational.counting.queries import accuracy_interval, mean_scores
from buttress.relational.declare import Join, key_columns
from buttress.relational.optimum.certified import PlanePool
from buttress.relational.optimum.solve import check_same_rows, kept_start, sampled_scores, solve
from buttress.relational.parameters import Parameters, check_parameters
from buttress.relational.plan.plan import Encoding, Plan, total_weight
from buttress.relational.plan.prepare import prepare
from buttress.relational.predict import joined_features, plan_beta
from buttress.relational.sources.databases import one_snapshot
from buttress.relational.sources.deadline import time_limit
from buttress.relational.sources.tables import row_count
from buttress.relational.sql.listing import scoring


class RelationalLinearSVC(Parameters, Probabilities, CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Linear support vector classifier over a join that is never materialised, with a certified optimum.

    Minimises (1/W) sum over rows x of the join of w(x) max(0, 1 - y(x) beta.x) + alpha ||beta||^2, W the sum of the
    weights; by default each row of the label's table weighs 1 in all. Features are scaled, to [-1, 1] by default, and
    the intercept is the coefficient of a constant 1, so it is regularised too. The reported interval holds the optimum,
    and the model's own objective is at most its upper end.

    Parameters
    ----------
    alpha : float, default=1e-3
        Weight of ||beta||^2, from 1e-100 to 1e100 (the paper's lambda).
    C : float or None
        If given, it replaces alpha: alpha = 1/(2 C W) as in scikit-learn's LinearSVC with these weights.
    loss : {"hinge", "squared_hinge", "logistic"}, default="hinge"
    tol : float, default=1e-3
        Stop when the interval's width is at most this share of its upper end; > 0.
    solver : {"auto", "sample"}, default="auto"
        "auto" fits a sample, certifies it, polishes by L-BFGS and refines by bundle steps until ``tol`` is met;
        "sample" stops once its fit is certified.
    objective : {"rows", "mean"}, default="rows"
        The mean loss of join rows, or that of label rows at the mean scores that ``decision_function(join)`` gives:
        take "mean" where one answer a label row is wanted.
    row_weight : {"label_row", "join"}, default="label_row"
        Every row of the label's table counts once (divided by its number of join rows), or every join row does.
    class_weight : dict, "balanced" or None
        Factor of the weights of each class's rows; "balanced" gives both classes the same total weight.
    fit_intercept : bool, default=True
    missing : {"raise", "zero", "mean"}, default="raise"
        What NULL and NaN in features are: refused, or numbers filled with 0 or with the mean of the column's rows that
        take part in the join, beside an indicator column ``table.column is NULL`` where there are any. In text NULL is
        a category, of the same name.
    scaling : {"max", "robust"}, default="max"
        Numbers are divided by their largest magnitude, or by the 95 per cent quantile of the magnitudes that are not
        0, which a few wild values do not move. The interval is that of the scaled problem.
    unmatched : {"intercept", "nan"}, default="intercept"
        Score of a row of the label's table that no row of the join extends, when a Join is predicted.
    n_samples : int, default=100_000
        Rows in the sample that the start is fitted to.
    engine : {"auto", "memory", "stream", "sql"}, default="auto"
        Where rows are counted. "memory": in this process. "stream": here too, but the columns in use lie in a temporary
        folder and are read again in every pass. "sql": in the database, one SELECT a pass; nothing leaves it. "auto"
        streams when the tables outside of this process would take more than ``memory_limit`` megabytes here.
    memory_limit : float, default=4000
        Megabytes that a fit may take, beside the frames it is given; streams and a DuckDB of our own take at least 200.
    max_iter : int or None, default=500
        Most oracle calls.
    max_time : float or None
        Most seconds, those of reading and preparing the tables included. A query that runs when they end is cancelled.
    random_state : int, RandomState or None
        Of the sample.
    progress : bool, default=False
        Show a progress line with the interval's relative width as gap.
    checkpoint : str or None, default=None
        Folder in which the fit keeps, every few seconds, what it needs to go on if its process is killed.
    resume : bool or "approximately", default=False
        True: go on from what ``checkpoint`` holds of this fit, to the same bits, or start if it holds nothing.
        "approximately" accepts other versions or threads.

    References
    ----------
    Abo-Khamis, Im, Moseley, Pruhs & Samadian, A relational gradient descent algorithm for support vector machine
    training, APOCS 2021.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from buttress.relational import Join, RelationalLinearSVC, Table
    >>> rng = np.random.default_rng(0)
    >>> loan = pd.DataFrame({"account": rng.integers(0, 20, 200), "sum": rng.normal(size=200)})
    >>> loan["bad"] = loan["sum"] > 0.3
    >>> account = pd.DataFrame({"id": rng.integers(0, 20, 100), "age": rng.normal(size=100)})
    >>> join = Join([Table("loan", loan, features=["sum"], label="bad"), Table("account", account, features=["age"])],
    ...             on=[("loan.account", "account.id")])
    >>> model = RelationalLinearSVC(random_state=0).fit(join)
    >>> bool(model.gap_ <= 1e-3), bool(model.score(join) > 0.9)
    (True, True)
    """

    _state = State(
        Attribute("coef_", "finite", "1, n_columns",
                  "In original units, in table then feature order, a column per category of text features."),
        Attribute("intercept_", "finite", "1"),
        Attribute("coef_per_deviation_", "real", "1, n_columns",
                  "What the score gains where a column is one standard deviation larger, taken over at most 10,000 "
                  "rows of the join; comparable among columns. NaN where ``max_time`` was spent before."),
        Attribute("coef_names_", "label", "n_columns",
                  "Name of each coefficient: ``table.column`` or ``table.column=category``."),
        Attribute("class_texts_", "label", "n_classes", "The labels as they stand in the file.",
                  when="after ``buttress fit``"),
        Attribute("features_", "any", meaning="(table, column, categories) of each feature."),
        Attribute("label_table_", "text", meaning="The table of the label."),
        Attribute("fills_", "any",
                  meaning='What stands for NULL in each feature of numbers, unless ``missing="raise"``.'),
        Attribute("optional_tables_", "label", "*",
                  "Tables that a left join may find no row of: where all its columns are NULL they count as zeros."),
        Attribute("objective_interval_", "finite", "2",
                  "Holds the optimum; the objective of the model is at most its upper end."),
        Attribute("dual_bound_", "real", meaning="The lower end."),
        Attribute("gap_", "real", meaning="Relative width of the interval."),
        PROOF,
        Attribute("alpha_", "nonnegative", meaning="The ridge."),
        Attribute("n_join_rows_", "count", meaning="Exact number of rows of the join."),
        Attribute("n_oracle_calls_", "count", meaning="Counts over the join."),
        Attribute("beta_", "finite", "*", "The coefficients in scaled features, the intercept among them."),
        Attribute("planes_", "any",
                  meaning="Cutting planes (a, B): mean loss >= a - B beta for every beta, in scaled features."),
        Attribute("converged_", "bool", meaning="Whether the interval is as narrow as ``tol``."),
        Attribute("n_iter_", "count", meaning="Steps of the solver."),
        Attribute("history_", "history", meaning="After each oracle call."))

    @all_or_nothing
    @resumable
    @with_callbacks
    def fit(self, X: Join, y: None = None) -> "RelationalLinearSVC":
        """Fit to a Join whose one labelled table holds the target; returns self.

        Raises ValueError for parameters out of range and for everything wrong with the join, naming table and column;
        SourceLostError when a database fails while it is used, SourceChangedError when its rows change meanwhile, and
        TimeoutError when ``max_time`` is spent before there is a model.
        """
        check_parameters(self, X, y)
        with time_limit(self.max_time), ExitStack() as held:
            oracle, plan = choose_oracle(X, self, held)
            check_same_rows(oracle, plan)
            return self._fit_plan(plan, oracle, PlanePool(plan.width))

    def _fit_plan(
        self, plan: Plan, oracle: MarginOracle, pool: PlanePool, start: Array | None = None
    ) -> "RelationalLinearSVC":
        """Solve for a plan with an oracle and a pool that may hold planes of other values of alpha."""
        report = step_callback(self, None, None, self.max_iter)
        alpha = self.alpha if self.C is None else 1 / (2 * self.C) / oracle.total  # its square is to be no 0
        check_number("alpha" if self.C is None else "alpha = 1 / (2 C W)", alpha, 1 / LARGEST, LARGEST, closed="both")
        rng = check_random_state(self.random_state)

        def begin() -> Array:
            return kept_start(oracle, self, alpha, rng) if start is None else start

        outcome = solve(oracle, pool, self, alpha, begin, report)
        best = outcome.state
        self.alpha_ = alpha
        self.classes_ = np.asarray(plan.classes)
        self._set_coefficients(plan, best.beta)
        self.objective_interval_ = (best.low, best.high)
        self.dual_bound_ = best.low
        self.gap_ = best.gap
        self.proof_ = proof_word([oracle.proven])
        self.n_join_rows_ = plan.n_rows
        self.n_oracle_calls_ = best.calls
        self.planes_ = (pool.a, pool.B)
        self.converged_ = best.gap <= self.tol
        self.n_iter_ = outcome.n_iter
        self.history_ = outcome.history
        self.coef_per_deviation_ = np.full_like(self.coef_, np.nan)
        if outcome.status == "interrupted" and not plan.nodes:  # a database's transaction may have ended with its query
            self._certainty = Certainty(missing="Ctrl-C came before rows for them were drawn. Call fit again.")
            return self
        try:
            held, spread = sampled_scores(oracle, best.beta, check_random_state(self.random_state))
            self._certainty = Certainty(held)
            moved = best.beta * spread
            self.coef_per_deviation_ = np.concatenate([moved[part][: len(table.scale)]
                                                       for table, part in zip(plan.tables, plan.slices)])[None, :]
        except TimeoutError:  # the model is whole, but cannot say how sure it is
            self._certainty = Certainty(missing="the time was up before rows for them were drawn. Raise max_time and "
                                                "call fit again.")
        return self

    def _set_coefficients(self, plan: Plan, beta: Array) -> None:
        parts = []
        self.intercept_ = np.zeros(1)
        for table, part in zip(plan.tables, plan.slices):
            coef = beta[part]
            if len(coef) > len(table.scale):
                self.intercept_ = coef[-1:].copy()
                coef = coef[:-1]
            parts.append(coef / table.scale)
        self.beta_ = beta
        self.coef_ = np.concatenate(parts)[None, :]
        self.coef_names_ = np.array([name for table in plan.tables for name in table.names], dtype=object)
        self.features_ = [(table.name, feature.name, feature.categories) for table in plan.tables
                          for feature in table.features]
        self.feature_names_in_ = np.array([f"{name}.{column}" for name, column, _ in self.features_], dtype=object)
        self.n_features_in_ = len(self.features_)
        self.label_table_ = plan.tables[plan.label_table].name
        self.optional_tables_ = plan.optional
        self.fills_ = {f"{table.name}.{name}": fill for table in plan.tables for name, fill in table.fills.items()}

    def to_sql(self, join: Join, columns: Sequence[str] = ()) -> str:
        """Return one SELECT that scores the rows of the label's table inside the database of a join.

        Its columns are ``columns`` of the label's table (or those that join it) and ``score``, which is that of
        ``decision_function(join)``: ``classes_[1]`` where it is above 0. Categories and fills are those of training. A
        number that is NULL, where training knew none, makes its scores NULL.
        """
        check_is_fitted(self)
        names = [table.name for table in join.tables]
        if self.label_table_ not in names or any(not isinstance(t.source, tuple) for t in join.tables):
            raise ValueError(f"to_sql needs the tables of one database, {self.label_table_!r} among them. Give each as "
                             "(connection, table name).")
        if names[join.root] != self.label_table_:
            raise ValueError(f"Rows of {self.label_table_!r} are scored. Put that table first, or give it its label.")
        join.check_asked(columns)
        chosen = columns or used_columns(join.tables[join.root], key_columns(join.check(), join.root))
        with one_snapshot(join.connections):
            return scoring(join, dict(zip(self.coef_names_, self.coef_[0])), float(self.intercept_[0]), self._alone,
                           self.features_, self.fills_, chosen)

    def _plan(self, join: Join) -> tuple[Plan, Array]:
        """Return the plan of another join over the same tables, and this model's coefficients in its scales."""
        names = [table.name for table in join.tables]
        if self.label_table_ not in names:
            raise ValueError(f"The join has no table {self.label_table_!r}, whose rows the model was trained to label. "
                             f"Got {', '.join(names)}. Give the table of the rows to predict that name.")
        plan = prepare(join, intercept=self.fit_intercept, root=names.index(self.label_table_), classes=self.classes_,
                       encoding=Encoding(self.missing, "max", self.fills_))
        known = dict(zip(self.coef_names_, self.coef_[0]))
        return plan, plan_beta(plan, known, float(self.intercept_[0]), self.features_)

    def decision_function(self, X: Any) -> Array:
        """Return scores, positive for ``classes_[1]``, one for each row of ``X``.

        Of an array or frame (n, n_features_in_) of joined rows: one a row; a frame's columns are found by their names
        ``table.column``, and are NULL where a left join found no match; the encoded columns that JoinSampler draws are
        scored by ``X @ coef_[0] + intercept_``. Of a Join: one a row of the label's table, in its order: the mean score
        of its join rows. A row without any gets what ``unmatched`` says, with a warning; :meth:`label_rows` are the
        others.
        """
        check_is_fitted(self)
        if isinstance(X, Join):
            return self._label_scores(X)
        return joined_features(X, self.features_, self.optional_tables_, self.fills_,
                               set(self.coef_names_)) @ self.coef_[0] + self.intercept_[0]

    def label_rows(self, join: Join) -> NDArray[np.int64]:
        """Return the row numbers of the label's table that take part in the join, ascending."""
        check_is_fitted(self)
        try:
            plan, _ = self._plan(join)
        except EmptyJoinError:
            return np.zeros(0, dtype=np.int64)
        place = next(rows for t, rows in plan.nodes[0].members if t == plan.label_table)
        return np.unique(plan.tables[plan.label_table].rows[place])

    @property
    def _alone(self) -> float:
        """Score of a row of the label's table that no row of the join extends."""
        return float(self.intercept_[0]) if self.unmatched == "intercept" else np.nan

    def _label_scores(self, join: Join) -> Array:
        """Return a score for every row of the label's table: the mean score of its rows of the join, if it has any."""
        try:
            plan, beta = self._plan(join)
            if len(plan.nodes[0].members) > 1:
                raise ValueError("Scores per label row need the label's table outside the join's cycle. Score joined "
                                 "rows, or use score(join).")
            n = plan.base_rows[plan.label_table]
            found = plan.tables[plan.label_table].rows[plan.nodes[0].members[0][1]]
            means = mean_scores(plan, beta)
        except EmptyJoinError:
            n = row_count(next(table.source for table in join.tables if table.name == self.label_table_))
            found = means = np.zeros(0, dtype=np.int64)
        scores = np.full(n, self._alone)
        scores[found] = means
        if len(found) < n:
            warn_user(f"{n - len(found)} of {n} rows of {self.label_table_} have no row of the join. Their score is "
                      f"{'the intercept' if self.unmatched == 'intercept' else 'NaN'} (unmatched={self.unmatched!r}).",
                      UserWarning)
        return scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each joined row, or of each label row of a Join by its mean score."""
        _, best = self._scores_of(X)
        return self.classes_[best]

    def _scores_of(self, X: Any) -> tuple[Array, NDArray[np.intp]]:
        """Return the scores (n, 1) and the number of the class predicted (n,)."""
        check_is_fitted(self)
        scores = self.decision_function(X)
        if np.isnan(scores).any():
            raise ValueError(f"{int(np.isnan(scores).sum())} label rows have no row of the join, so that no class can "
                             "be predicted for them. Use decision_function, or unmatched='intercept'.")
        return scores[:, None], (scores > 0).astype(np.intp)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy: on the rows of a Join (weighted by its weights), or on joined rows X with labels y.

        On a Join whose scores are too many to list, the middle of :meth:`score_interval`.
        """
        if isinstance(X, Join):
            low, high = self.score_interval(X)
            return (low + high) / 2
        return super().score(X, y, sample_weight)

    def score_interval(self, join: Join) -> tuple[float, float]:
        """Return two numbers between which the accuracy on the join's rows lies; equal where it is counted exactly."""
        check_is_fitted(self)
        plan, beta = self._plan(join)
        if plan.classes is None or join.root != plan.label_table:
            raise ValueError("Accuracy needs the label. Give the label's table label='column'.")
        check_total(total_weight(plan))
        return accuracy_interval(plan, beta)
