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


def shifted(support, query):
    return query + support.mean(axis=0) - query.mean(axis=0)


def rectified(support, labels, query, n_way, sharpness=10.0):
    """BD-CSPN in public code: a prototype is the mean of the rows nearest to it, each times its softmax."""
    first, total, count = means(support, labels, n_way), np.zeros((n_way, support.shape[1])), np.zeros(n_way)
    for x in np.concatenate([support, shifted(support, query)]):
        cosines = np.array([cosine(x, p) for p in first])
        total[cosines.argmax()] += softmax(sharpness * cosines).max() * x
        count[cosines.argmax()] += 1
    return np.array([total[c] / count[c] if count[c] else first[c] for c in range(n_way)])


def weighted_means(support, labels, query, n_way, sharpness=1.0):
    """Liu et al., section 3.3, as EasyFSL reads it."""
    moved, first, prototypes = shifted(support, query), means(support, labels, n_way), []
    choice = np.array([np.argmax([cosine(x, p) for p in first]) for x in moved])
    for c in range(n_way):
        members = np.concatenate([support[labels == c], moved[choice == c]])
        weights = np.array([np.exp(sharpness * cosine(x, first[c])) for x in members])
        prototypes.append((weights[:, None] * members).sum(axis=0) / weights.sum())
    return np.array(prototypes)


def laplacianshot(support, labels, query, n_way, smoothing, n_neighbors, max_iter, rectification):
    """Ziko et al., Algorithm 1, without stopping early."""
    support, query = cl2n(support, query)
    if rectification == "authors":
        prototypes, query = rectified(support, labels, query, n_way), shifted(support, query)
    elif rectification == "EasyFSL":
        prototypes = weighted_means(support, labels, query, n_way)
    else:
        prototypes = means(support, labels, n_way)
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
        rows = np.sign(rows) * (np.abs(rows) + 1e-6) ** power
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


def tim_gd(support, labels, query, n_way, weights, temperature, learning_rate, n_steps):
    """Boudiaf et al., section 3: the loss's finite differences, and Adam."""
    support, query = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (support, query))

    def loss(w):
        w = w.reshape(n_way, -1)
        p, q = (
            np.array([softmax(-temperature / 2 * ((x - w) ** 2).sum(axis=1)) for x in rows])
            for rows in (support, query)
        )
        cross_entropy = -np.log(p[np.arange(len(labels)), labels]).mean()
        marginal = -(q.mean(axis=0) * np.log(q.mean(axis=0))).sum()
        conditional = -(q * np.log(q)).sum(axis=1).mean()
        return weights[0] * cross_entropy - weights[1] * marginal + weights[2] * conditional

    w = means(support, labels, n_way).ravel()
    mean, square = np.zeros_like(w), np.zeros_like(w)
    for step in range(1, n_steps + 1):
        slope = np.array([(loss(w + e) - loss(w - e)) / 2e-5 for e in 1e-5 * np.eye(len(w))])
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        w = w - learning_rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    w = w.reshape(n_way, -1)
    return np.array([-temperature / 2 * ((x - w) ** 2).sum(axis=1) for x in query])


def ostim(support, labels, query, n_way, weights, temperature, learning_rate, n_steps):
    """Cosines to prototypes and minus their mean; the loss's finite differences, and Adam. Also the odds of none."""
    mean = np.concatenate((support, query)).mean(axis=0)
    prototypes = means(support - mean, labels, n_way)
    support, query = ((x - mean) / np.linalg.norm(x - mean, axis=1, keepdims=True) for x in (support, query))

    def open_logits(w, rows):
        closed = temperature * rows @ (w / np.linalg.norm(w, axis=1, keepdims=True)).T
        return np.concatenate((closed, -closed.mean(axis=1, keepdims=True)), axis=1)

    def loss(w):
        w = w.reshape(n_way, -1)
        p, q = (np.array([softmax(logits) for logits in open_logits(w, rows)]) for rows in (support, query))
        cross_entropy = -np.log(p[np.arange(len(labels)), labels]).mean()
        marginal = -(q.mean(axis=0) * np.log(q.mean(axis=0))).sum()
        conditional = -(q * np.log(q)).sum(axis=1).mean()
        return weights[0] * cross_entropy - weights[1] * marginal + weights[2] * conditional

    w = prototypes.ravel()
    first, second = np.zeros_like(w), np.zeros_like(w)
    for step in range(1, n_steps + 1):
        slope = np.array([(loss(w + e) - loss(w - e)) / 2e-5 for e in 1e-5 * np.eye(len(w))])
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        w = w - learning_rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    logits = open_logits(w.reshape(n_way, -1), query)
    none = np.array([softmax(own)[-1] for own in logits])
    return logits[:, :-1], none
