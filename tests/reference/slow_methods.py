"""Methods of the field written for one task, as plainly as their papers put them."""

import numpy as np


def cl2n(support, query):
    mean = np.concatenate([support, query]).mean(axis=0)
    return [np.array([(x - mean) / np.linalg.norm(x - mean) for x in rows]) for rows in (support, query)]


def means(support, labels, n_way):
    return np.array([support[labels == c].mean(axis=0) for c in range(n_way)])


def cosine(x, w):
    return x @ w / (np.linalg.norm(x) * np.linalg.norm(w))


def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


def bd_cspn_prototypes(support, labels, query, n_way, sharpness=1.0):
    """Liu et al., section 3.3."""
    shifted = query + support.mean(axis=0) - query.mean(axis=0)
    first = means(support, labels, n_way)
    prototypes = []
    choice = np.array([np.argmax([cosine(x, p) for p in first]) for x in shifted])
    for c in range(n_way):
        members = np.concatenate([support[labels == c], shifted[choice == c]])
        weights = np.array([np.exp(sharpness * cosine(x, first[c])) for x in members])
        prototypes.append((weights[:, None] * members).sum(axis=0) / weights.sum())
    return np.array(prototypes)


def laplacianshot(support, labels, query, n_way, smoothing, n_neighbors, max_iter, rectify):
    """Ziko et al., Algorithm 1, without stopping early."""
    support, query = cl2n(support, query)
    prototypes = bd_cspn_prototypes(support, labels, query, n_way) if rectify else means(support, labels, n_way)
    costs = np.array([[((x - p) ** 2).sum() for p in prototypes] for x in query])
    graph = np.zeros((len(query), len(query)))
    for i, x in enumerate(query):
        distances = ((query - x) ** 2).sum(axis=1)
        distances[i] = np.inf
        graph[i, np.argsort(distances)[:n_neighbors]] = 1.0
    y = np.array([softmax(-a) for a in costs])
    for _ in range(max_iter):
        y = np.array([softmax(z) for z in smoothing * graph @ y - costs])
    return y


def pt_map(support, labels, query, n_way, power, sharpness, step, n_rounds):
    """Hu et al., Algorithm 1, with many plain Sinkhorn iterations."""

    def prepare(rows):
        rows = (np.maximum(rows, 0) + 1e-6) ** power
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows - rows.mean(axis=0)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    support, query = prepare(support), prepare(query)
    centres = means(support, labels, n_way)

    def plan():
        p = np.exp(-sharpness * np.array([[((x - c) ** 2).sum() for c in centres] for x in query]))
        for _ in range(5000):
            p = p / p.sum(axis=1, keepdims=True)
            p = p * (len(query) / n_way) / p.sum(axis=0)
        return p

    for _ in range(n_rounds):
        members = np.concatenate([np.eye(n_way)[labels], plan()])
        target = (members.T @ np.concatenate([support, query])) / members.sum(axis=0)[:, None]
        centres = centres + step * (target - centres)
    return plan()


def paddle(support, labels, query, n_way, complexity, temperature, n_rounds):
    """Martin et al., Algorithm 1."""
    support, query = cl2n(support, query)
    prototypes, pull = means(support, labels, n_way), np.zeros(n_way)
    for _ in range(n_rounds):
        u = np.array(
            [softmax(np.array([-temperature / 2 * ((x - p) ** 2).sum() for p in prototypes]) + pull) for x in query]
        )
        pull = complexity * np.log(u.mean(axis=0) + 1e-6)
        members = np.concatenate([np.eye(n_way)[labels], u])
        prototypes = (members.T @ np.concatenate([support, query])) / members.sum(axis=0)[:, None]
    return u


def label_propagation(support, labels, query, n_way, width, n_neighbors, damping):
    """Liu et al., Eqs. (2) to (4): an edge stays if either end counts the other among its nearest."""
    rows = np.concatenate(cl2n(support, query))
    weights = np.array([[np.exp(-((x - z) ** 2).sum() / (2 * width**2)) for z in rows] for x in rows])
    np.fill_diagonal(weights, 0.0)
    near = np.array([[w in sorted(row)[-n_neighbors:] for w in row] for row in weights])
    weights = weights * (near | near.T)
    root = np.diag(weights.sum(axis=1) ** -0.5)
    known = np.concatenate([np.eye(n_way)[labels], np.zeros((len(query), n_way))])
    return (np.linalg.inv(np.eye(len(rows)) - damping * root @ weights @ root) @ known)[len(support) :]
