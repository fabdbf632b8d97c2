"""scikit-learn's own checks of an estimator."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from marginshot import TransductiveMaxMarginClassifier


@parametrize_with_checks(
    [TransductiveMaxMarginClassifier(), TransductiveMaxMarginClassifier(kernel="rbf", lambda2=(0,))]
)
def test_scikit_learn(estimator, check):
    check(estimator)
