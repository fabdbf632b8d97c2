"""FS-TMMC the slow and obvious way: the printed equations plus the offset, minimised by SciPy's L-BFGS-B over α."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

LAMBDA2 = (0.0, 1e-5, 1e-3, 0.1, 1.0)


def centred_unit_rows(support, query):
    """Section 4.4, feature transformation: (n, D), (m, D) -> (n + m, D)."""
    rows = np.concatenate((support, query)).astype(np.float64)
    rows -= rows.mean(axis=0)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class ClassProblem:
    """Eq. (7) to (9) for one class against the rest."""

    def __init__(self, gram, labels, positive, offset, lambda1=0.04, gamma1=20.0, gamma2=2.0):
        self.gram, self.offset = gram, offset
        self.lambda1, self.gamma1, self.gamma2 = lambda1, gamma1, gamma2
        self.n = len(labels)
        self.m = len(gram) - self.n
        self.y = np.where(labels == positive, 1.0, -1.0)
        n_positive = (labels == positive).sum()
        self.w = np.where(labels == positive, self.n / (2 * n_positive), self.n / (2 * (self.n - n_positive)))

    def scores(self, alpha):
        return self.gram @ alpha + self.offset

    def value(self, alpha, lambda2):
        f = self.scores(alpha)
        hinge = self.w / self.gamma1 * np.logaddexp(0.0, self.gamma1 * (1 - self.y * f[: self.n]))
        value = self.lambda1 / 2 * alpha @ self.gram @ alpha + hinge.sum() / self.n
        if self.m:
            value += lambda2 / self.m * np.exp(-self.gamma2 * f[self.n :] ** 2).sum()
        return value

    def gradient(self, alpha, lambda2):
        f = self.scores(alpha)
        t = np.empty(len(alpha))
        t[: self.n] = -self.w * self.y * expit(self.gamma1 * (1 - self.y * f[: self.n])) / self.n
        query = f[self.n :]
        t[self.n :] = -2 * self.gamma2 * lambda2 * query * np.exp(-self.gamma2 * query**2) / max(self.m, 1)
        return self.gram @ (self.lambda1 * alpha + t)


@threadpool_limits.wrap(limits=1)  # BLAS threads only get in each other's way at this size
def solve(gram, labels, n_way, lambda2=LAMBDA2, offset=None, gtol=1e-5):
    """Scores (M, N) and objective (N, stages) of one task."""
    offset = 2 / n_way - 1 if offset is None else offset
    scores, objective = np.empty((len(gram), n_way)), np.empty((n_way, len(lambda2)))
    for c in range(n_way):
        problem = ClassProblem(gram, labels, c, offset)
        alpha = np.zeros(len(gram))
        for stage, weight in enumerate(lambda2):
            result = minimize(
                problem.value,
                alpha,
                args=(weight,),
                jac=problem.gradient,
                method="L-BFGS-B",
                options={"maxiter": 5000, "maxfun": 20000, "ftol": 1e-12, "gtol": gtol},
            )
            alpha, objective[c, stage] = result.x, result.fun
        scores[:, c] = problem.scores(alpha)
    return scores, objective


def platt_probabilities(scores, labels, n_way):
    """σ(A f + B) of every row (M, N), A and B fitted on the support with Platt's smoothed targets.

    A soft target t is a positive of weight t and a negative of weight 1 − t, which scikit-learn can fit.
    """
    n = len(labels)
    probabilities = np.empty_like(scores)
    for c in range(n_way):
        positive = labels == c
        targets = np.where(positive, (positive.sum() + 1) / (positive.sum() + 2), 1 / (n - positive.sum() + 2))
        support = np.tile(scores[:n, [c]], (2, 1))
        model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(
            support, np.repeat([1, 0], n), sample_weight=np.concatenate((targets, 1 - targets))
        )
        probabilities[:, c] = model.predict_proba(scores[:, [c]])[:, 1]
    return probabilities


def logistic_probabilities(scores, labels, n_way):
    """p (M, N) of a logistic regression of 0 and 1 on the scores of the support, as scikit-learn fits it by default."""
    n = len(labels)
    models = [LogisticRegression(tol=1e-10, max_iter=10_000).fit(scores[:n, [c]], labels == c) for c in range(n_way)]
    return np.stack([models[c].predict_proba(scores[:, [c]])[:, 1] for c in range(n_way)], axis=1)


def label_queries(support, labels, query, n_way):
    """From features to labels (m,), end to end, with the offset and Platt's smoothed targets."""
    rows = centred_unit_rows(support, query)
    scores, _ = solve(rows @ rows.T, labels, n_way)
    return platt_probabilities(scores, labels, n_way)[len(labels) :].argmax(axis=1)


def label_as_printed(support, labels, query, n_way):
    """From features to labels (m,), end to end, word for word: no offset, targets 0 and 1."""
    rows = centred_unit_rows(support, query)
    scores, _ = solve(rows @ rows.T, labels, n_way, offset=0.0)
    return logistic_probabilities(scores, labels, n_way)[len(labels) :].argmax(axis=1)
