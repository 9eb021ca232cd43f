"""The words of the page: short headings of the columns, and one paragraph on each term."""

FILES = ("audit.json", "audit.html", "suspicious.csv")
WITHOUT_JINJA = "The page audit.html needs jinja2. Install it with: pip install 'buttress[report]'"

HEADINGS = {
    "as_is": "as it is", "balanced": "balanced", "auc": "ROC AUC", "log_loss": "log loss", "r2": "R²",
    "mae": "mean error", "median": "median error", "attacked": "moved inputs", "certified": "proven",
    "flipped_10": "10% wrong labels", "flipped_30": "30% wrong labels", "noise_10": "10% wrong targets",
    "noise_30": "30% wrong targets", "labels_needed": "wrong labels it would take",
    "labels_proven": "proven against wrong labels", "moved": "numbers moved", "swapped": "categories swapped",
    "blanked": "a cell left empty", "cross_validated": "cross-validated", "novel": "novel rows",
}

GLOSSARY = {
    "as_is": (
        "As it is",
        "The score on rows the model was not trained on, taken as they came. Of classes it is the accuracy (share "
        "predicted right), of numbers the RMSE (typical error, in the units of the target).",
    ),
    "balanced": (
        "Balanced",
        "Balanced accuracy: the share predicted right of each class, averaged over the classes. Always saying the "
        "majority gets one over the number of classes, however rare the others are. It decides where a class has less "
        "than a tenth of the rows, unless --metric says otherwise.",
    ),
    "auc": (
        "ROC AUC",
        "The area under the ROC curve: how often a row of a class scores higher for it than a row of another class. .5 "
        "is chance, 1 perfect. Of several classes it is the mean of each against the rest.",
    ),
    "log_loss": (
        "Log loss",
        "The mean of -log of the probability that the model gave the true class: lower is better. One sure mistake "
        "costs much. A dash means that the model gives no probabilities.",
    ),
    "mae": (
        "Mean error",
        "The mean of the absolute errors, in the units of the target.",
    ),
    "r2": (
        "R²",
        "The share of the target's variance that the model explains: 1 is perfect, 0 is no better than always "
        "predicting the mean.",
    ),
    "median": (
        "Median error",
        "Half of the predictions are nearer than this. A few wrong targets do not move it.",
    ),
    "attacked": (
        "Moved inputs",
        "Every number of a row is moved by at most eps standard deviations, in the direction that does most harm; "
        "a row counts if it is right before and after. eps is what may be wrong with a number without that "
        "anybody notices: an error of measurement (a height of 171 cm in place of 170 is .1 deviations off), rounding "
        "(a year of age is about .05), or what a person could falsify (an income that is a tenth higher may be .2)."
        " Models with known gradients are attacked along them (projected gradient "
        "descent, PGD: 40 steps, 2 starts), others by trying.",
    ),
    "proven": (
        "Proven",
        "The share of rows that are right and, by a proof, stay right under every such move. What is proven is a "
        "lower bound, what an attack leaves is an upper one. A dash means that no proof is known.",
    ),
    "flipped_10": (
        "Wrong labels",
        "The accuracy after the labels of 10% or 30% of the training rows were changed at random. It shows how "
        "much the model depends on every label being right.",
    ),
    "noise_10": (
        "Wrong targets",
        "The RMSE after 10% or 30% of the training targets were replaced by numbers far off. It shows how much the"
        " model depends on every target being right.",
    ),
    "labels_needed": (
        "Wrong labels it would take, proven against wrong labels",
        "How many training labels would have to be wrong to make a prediction wrong, those that matter most to it: the "
        "median over the held-out rows, 0 for one that is wrong already. And the share of held-out rows that are right "
        "whichever labels are wrong, as many as may be by the estimate of their share. Both are proven, for the "
        "model's parameters held fixed. A dash means that the number is not known exactly: it is where predictions are "
        "weighted sums of the labels. What stands no more than the majority class proves nothing.",
    ),
    "moved": (
        "Numbers moved",
        "Every number of a row, as it came, is moved by at most eps robust deviations (the distance of the quartiles "
        "over 1.349; of whole numbers, whole ones) in the worst direction found by trying. As any attack it finds part "
        "of what can go wrong, and less of a model that gives labels only. Of numbers it is the RMSE.",
    ),
    "swapped": (
        "Categories swapped",
        "The worst that comes of swapping at most so many categories of a row for others seen in training. All swaps "
        "of one are tried; of more, the worst is added to those before.",
    ),
    "blanked": (
        "A cell left empty",
        "The worst that comes of leaving one cell of a row empty. All cells are tried that the model takes a gap in.",
    ),
    "novel": (
        "Novel rows",
        "Held-out rows that are farther from the others than those are from each other. About a tenth of the rows "
        "named may be named by chance. Predictions there are guesses.",
    ),
    "cross_validated": (
        "Cross-validated",
        "The mean score of 15 fits, each to four fifths of the rows in use and scored on the others (five parts, three "
        "times), with an interval that counts how many rows the fits share (Nadeau and Bengio). Of thorough audits, "
        "for the baselines, the plain machine and the recommended one.",
    ),
    "interval": (
        "Interval",
        "Of a hundred audits of such tables, the intervals of about 95 hold the score that the model would have on "
        "all rows of this kind. Two models whose intervals overlap widely may be equally good.",
    ),
    "baseline": (
        "Majority class, mean of the target",
        "Always predicts the commonest class, or the mean. What is no better has learned nothing.",
    ),
    "linear": (
        "Logistic and ridge regression",
        "The plain linear models: quick, and easy to explain.",
    ),
    "boosting": (
        "Gradient boosting",
        "Many small decision trees, each correcting those before (scikit-learn's HistGradientBoosting). The "
        "standard for tables; it takes missing values and categories as they are.",
    ),
    "plain": (
        "Kernel machine, kernel ridge regression",
        "The plain kernel machines: a smooth function of all columns, fitted as if every row were right.",
    ),
    "adversarial-linear": (
        "Linear model trained against moved inputs",
        "The linear machine that is best where every input is moved against it: what it withstands is proven. The "
        "one to beat on moved inputs.",
    ),
    "certified": (
        "Kernel machine trained to be proven against moved inputs",
        "The same with a smooth part beside the linear one, used as far as it can be proven to withstand moved inputs.",
    ),
    "adversarial": (
        "The better of two kernel machines trained against moved inputs",
        "The one that is trained to be proven, or one trained on moved inputs where that clearly withstands more on "
        "rows held out.",
    ),
    "subquantile": (
        "Kernel machine, or regression, of the 70% of the rows it fits best",
        "Subquantile learning: it is trained only on those rows, as the others may be wrong.",
    ),
    "robust": (
        "Kernel machine that finds wrong targets itself",
        "It estimates how many training targets are wrong and which, and gives them no say.",
    ),
    "least-squares": (
        "Kernel machine whose labels are counted",
        "It is fitted by least squares to labels as numbers, so that every prediction is a weighted sum of labels and "
        "the wrong ones that it stands can be counted. It is here for that proof, and is not recommended.",
    ),
    "wrong": (
        "Looks wrong, borderline",
        "A robust model is fitted without the row. Its probability that the row's target is wrong is .5 or more: "
        "looks wrong; .25 to .5: borderline. It means unlike what the other rows suggest. Look before you correct.",
    ),
}


# what the page calls an estimator of the table, and the class that it is
PLAIN = {
    "plain SVC": ("kernel machine", "SVC"),
    "adversarial linear SVC": ("linear model trained against moved inputs", "AdversarialLinearSVC"),
    "certified SVC": ("kernel machine trained to be proven against moved inputs", "CertifiedSVC"),
    "adversarial SVC": ("the better of two kernel machines trained against moved inputs", "AdversarialClassifier"),
    "subquantile, class-balanced": ("kernel machine of the 70% of the rows it fits best", "KernelClassifier"),
    "subquantile": ("kernel regression of the 70% of the rows it fits best", "KernelRegressor"),
    "robust, contamination unknown": ("kernel machine that finds wrong targets itself", "RobustKernel{}"),
    "plain kernel ridge": ("kernel ridge regression", "KernelRegressor"),
    "least squares": ("kernel machine whose labels are counted", "LeastSquaresClassifier"),
}


def in_words(name: str, task: str) -> str:
    """Return what an estimator of the table is in plain words, with its class; its name where that is plain."""
    said, known_as = PLAIN.get(name, (name, ""))
    kind = "Classifier" if task == "classification" else "Regressor"
    return f"{said} ({known_as.format(kind)})" if known_as else said


# how an estimator's name begins, and the word that the command and the paragraph on it call it by
_FAMILIES = {
    "majority": "baseline", "mean": "baseline", "logistic": "linear", "ridge": "linear", "gradient": "boosting",
    "plain": "plain", "adversarial linear": "adversarial-linear", "certified": "certified",
    "adversarial": "adversarial", "subquantile": "subquantile", "robust": "robust", "least": "least-squares",
}


def columns_of_task(task: str) -> list[str]:
    """Return the columns of a task that the table can have of models that are recommended."""
    of_numbers = ("r2", "mae", "median", "noise_10", "noise_30")
    of_classes = ("balanced", "auc", "log_loss", "attacked", "certified", "flipped_10", "flipped_30")
    left_out = of_numbers if task == "classification" else of_classes
    return [key for key in HEADINGS if key not in left_out and not key.startswith("labels")]


def family_of(estimator: str) -> str | None:
    """Return the word for an estimator of the table, and for the paragraph on it, None where it is the user's own."""
    return next((word for start, word in _FAMILIES.items() if estimator.startswith(start)), None)


def term_of_column(key: str) -> str:
    """Return the key of the paragraph on a column of the table."""
    return {"certified": "proven", "flipped_30": "flipped_10", "noise_30": "noise_10",
            "labels_proven": "labels_needed"}.get(key, key)
