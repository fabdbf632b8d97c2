"""scikit-learn's own checks of an estimator."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from marginshot import CentreAndNormalise, DiscriminantTransform, TransductiveMaxMarginClassifier
from marginshot.evaluation.whitening import WithinClassWhitening
from tasks_for_tests import of_paper


def expected_failures(estimator):
    return {
        "check_classifiers_classes": "fits labels -1 and 1, but -1 marks unlabelled rows",
        "check_sample_weight_equivalence_on_dense_data": "a row given twice also counts twice for the mean of the task",
    }


# Some of the checks' rows do.
@pytest.mark.filterwarnings("ignore:The .* rows differ more in their lengths:UserWarning")
@parametrize_with_checks(
    [
        TransductiveMaxMarginClassifier(),
        TransductiveMaxMarginClassifier(kernel="rbf"),
        of_paper(),
        of_paper(lambda2=(0,)),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [
        CentreAndNormalise(),
        CentreAndNormalise(power=0.75),
        DiscriminantTransform(),
        DiscriminantTransform(power=1),
        WithinClassWhitening(),
    ]
)
def test_scikit_learn_on_transformers(estimator, check):
    check(estimator)
