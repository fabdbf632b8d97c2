"""Rivals of recent years written for one task, as plainly as their papers put them."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, gammaln

from reference.slow_methods import cl2n, means, softmax


def unit(rows):
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)


def power(rows, exponent):
    return np.sign(rows) * (np.abs(rows) + 1e-6) ** exponent


def peme(support, query, exponent=0.5):
    """Power transform, unit length, the mean of both sets subtracted, unit length."""
    support, query = unit(power(support, exponent)), unit(power(query, exponent))
    mean = np.concatenate([support, query]).mean(axis=0)
    return unit(support - mean), unit(query - mean)


def sinkhorn(kernel, masses):
    """Rows to sum 1, columns to their masses, by turns."""
    plan = kernel / kernel.sum(axis=1, keepdims=True)
    for _ in range(3000):
        if np.abs(plan.sum(axis=0) - masses).max() < 1e-9:
            break
        plan = plan * masses / plan.sum(axis=0)
        plan = plan / plan.sum(axis=1, keepdims=True)
    return plan


def distances(rows, centres):
    return np.array([[((x - c) ** 2).sum() for c in centres] for x in rows])


def map_rounds(support, labels, query, n_way, sharpness, step, n_rounds):
    """PT-MAP's rounds on features already prepared."""
    centres, equal = means(support, labels, n_way), np.full(n_way, len(query) / n_way)
    for _ in range(n_rounds):
        members = np.concatenate(
            [np.eye(n_way)[labels], sinkhorn(np.exp(-sharpness * distances(query, centres)), equal)]
        )
        target = (members.T @ np.concatenate([support, query])) / members.sum(axis=0)[:, None]
        centres = centres + step * (target - centres)
    return sinkhorn(np.exp(-sharpness * distances(query, centres)), equal)


def bpa_affinities(rows, regularization, n_iter):
    """Shalam and Korman, section 3: a transport plan from the set to itself, no point keeping its own mass."""
    size = len(rows)
    cost = 1.0 - rows @ rows.T
    np.fill_diagonal(cost, 1e5)
    potential_u, potential_v = np.zeros(size), np.zeros(size)
    for _ in range(n_iter):
        potential_u = -np.array([np.log(np.exp(potential_v - cost[i] / regularization).sum()) for i in range(size)])
        potential_v = -np.array([np.log(np.exp(potential_u - cost[:, j] / regularization).sum()) for j in range(size)])
    plan = np.exp(potential_u[:, None] - cost / regularization + potential_v[None, :])
    plan = plan / plan.max()
    np.fill_diagonal(plan, 1.0)
    return plan


def bpa(support, labels, query, n_way, regularization, n_iter, n_rounds):
    """PTMAP-BPA: the transform between PT-MAP's preparation, done before and after, and its rounds."""

    def centred_apart(support, query):
        support, query = unit(support), unit(query)
        return unit(support - support.mean(axis=0)), unit(query - query.mean(axis=0))

    support, query = centred_apart(power(support, 0.5), power(query, 0.5))
    affinities = bpa_affinities(np.concatenate([support, query]), regularization, n_iter)
    support, query = centred_apart(affinities[: len(support)], affinities[len(support) :])
    return map_rounds(support, labels, query, n_way, 10.0, 0.2, n_rounds)


def bms(support, labels, query, n_way, n_rounds, n_sinkhorn, n_steps, learning_rate=0.1, momentum=0.8):
    """Hu et al., Algorithm 1; the gradient steps in feature space."""
    support, query = peme(support, query)
    rows = np.concatenate([support, query])
    weights = unit(means(support, labels, n_way))
    least = len(support) / n_way

    for _ in range(n_rounds):
        p = np.array([softmax(z) for z in 8.5 * query @ weights.T])
        for _ in range(n_sinkhorn):
            p = p / p.sum(axis=1, keepdims=True)
            mass = p.sum(axis=0)
            p = p * np.where(mass < least, least / mass, 1.0)
        members = np.concatenate([np.eye(n_way)[labels], p])
        chosen = np.bincount(members.argmax(axis=1), minlength=n_way)
        least = min(chosen.min(), len(query) / n_way)
        weights = unit(members.T @ rows / members.sum(axis=0)[:, None])
        weights = _boosted(rows, members, weights, n_steps, learning_rate, momentum)
    return p / p.sum(axis=1, keepdims=True)


def _boosted(rows, members, weights, n_steps, learning_rate, momentum):
    """Descent with the loss's finite differences, by class weights and scale."""

    def loss(parameters):
        scale, w = parameters[-1], parameters[:-1].reshape(weights.shape)
        logits = scale * rows @ unit(w).T
        log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return -(members * log_p).sum(axis=1).mean()

    parameters, velocity = np.append(weights.ravel(), 1.0), np.zeros(weights.size + 1)
    for _ in range(n_steps):
        ahead = 1e-5 * np.eye(len(parameters))
        gradient = np.array([(loss(parameters + e) - loss(parameters - e)) / 2e-5 for e in ahead])
        velocity = momentum * velocity + gradient
        parameters = parameters - learning_rate * velocity
        parameters[:-1] = unit(parameters[:-1].reshape(weights.shape)).ravel()
    return parameters[:-1].reshape(weights.shape)


def protolp(support, labels, query, n_way, n_components, graph_weight, propagated, n_rounds):
    """Zhu and Koniusz, Algorithm 1, with the anchor graph's Laplacian and many plain Sinkhorn iterations."""
    rows = unit(power(np.concatenate([support, query]), 0.5))
    rows = rows @ np.linalg.svd(rows, full_matrices=False)[2][:n_components].T
    rows = unit(rows - rows.mean(axis=0))
    support, query = rows[: len(support)], rows[len(support) :]
    known, equal = np.eye(n_way)[labels], np.full(n_way, len(query) / n_way)
    prototypes = unit(means(support, labels, n_way))
    for _ in range(n_rounds):
        z = np.concatenate([known, sinkhorn(np.exp(-10.0 * distances(query, prototypes)), equal)])
        anchors = z.T @ z
        laplacian = anchors - anchors @ np.diag(1 / z.sum(axis=0)) @ anchors
        a = np.linalg.inv(known.T @ known + graph_weight * laplacian) @ known.T @ known
        soft = sinkhorn((z @ a)[len(support) :], equal)
        members = np.concatenate([known, np.minimum(propagated * soft + (1 - propagated) * z[len(support) :], 1.0)])
        target = (members.T @ rows) / members.sum(axis=0)[:, None]
        prototypes = prototypes + 0.2 * (target - prototypes)
    return sinkhorn(np.exp(-10.0 * distances(query, prototypes)), equal)


def soft_kmeans(support, labels, query, n_way, temperature, n_rounds):
    """Bendou et al., section 3.4."""
    support, query = cl2n(support, query)
    return _soft_kmeans(support, labels, query, n_way, temperature, n_rounds)


def _soft_kmeans(support, labels, query, n_way, temperature, n_rounds):
    centres = means(support, labels, n_way)
    for _ in range(n_rounds):
        p = np.array([softmax(-temperature * d) for d in distances(query, centres)])
        members = np.concatenate([np.eye(n_way)[labels], p])
        centres = (members.T @ np.concatenate([support, query])) / members.sum(axis=0)[:, None]
    return p


def bavardage(support, labels, query, n_way, balanced):
    """Hu et al., Algorithm 1, every direction scaled by 5, with T_vb = 4, T_km = 10, α_0 = 2, β_0 = 10."""
    support, query = cl2n(support, query)
    rows, known = np.concatenate([support, query]), np.eye(n_way)[labels]
    r = np.concatenate([known, _soft_kmeans(support, labels, query, n_way, 10.0, 5)])
    for _ in range(5):
        beta = 10.0 + r.sum(axis=0)
        centres = (r.T @ (5.0 * rows)) / beta[:, None]
        basis = np.linalg.qr((centres[1:] - centres[0]).T)[0]
        projected = 5.0 * rows @ basis
        m = (r.T @ projected) / beta[:, None]
        alpha = 2.0 + r[len(support) :].sum(axis=0)
        log_shares = np.zeros(n_way) if balanced else digamma(alpha) - digamma(alpha.sum())
        log_rho = log_shares - distances(projected, m) * 4.0 / 2 - (n_way - 1) / (2 * beta)
        r = np.concatenate([known, np.array([softmax(z) for z in log_rho[len(support) :]])])
    return r[len(support) :]


def ilpc(support, labels, query, n_way, n_neighbors, n_best, n_steps):
    """Lazarou et al., Algorithm 1, the classifier in feature space."""
    rows = np.concatenate(peme(support, query))
    propagator = _ilpc_propagator(rows, n_neighbors)
    known = dict(enumerate(labels))
    left, scores = np.full(n_way, len(query) / n_way), {}
    while len(known) < len(rows):
        free = [i for i in range(len(rows)) if i not in known]
        spread = np.array([[sum(propagator[i, j] for j in known if known[j] == c) for c in range(n_way)] for i in free])
        plan = sinkhorn((spread / spread.sum(axis=1, keepdims=True)) ** 3, left * len(free) / left.sum() + 1e-15)
        guess = dict(zip(free, plan.argmax(axis=1), strict=True))
        losses = _ilpc_losses(rows, known, guess, n_way, n_steps)
        kept = []
        for c in range(n_way):
            kept += sorted((i for i in free if guess[i] == c), key=lambda i: losses[i])[:n_best]
        for i in kept if len(kept) >= n_way else free:
            known[i], scores[i] = guess[i], plan[free.index(i)]
            left[guess[i]] = max(left[guess[i]] - 1, 0)
    return np.array([scores[i] for i in range(len(support), len(rows))])


def _ilpc_propagator(rows, n_neighbors):
    cosines = rows @ rows.T
    graph = np.zeros_like(cosines)
    for i in range(len(rows)):
        others = [j for j in np.argsort(-cosines[i]) if j != i][:n_neighbors]
        graph[i, others] = np.maximum(cosines[i, others], 0) ** 3
    graph = graph + graph.T
    root = np.diag(graph.sum(axis=1) ** -0.5)
    return np.linalg.inv(np.eye(len(rows)) - 0.8 * root @ graph @ root)


def _ilpc_losses(rows, known, guess, n_way, n_steps):
    target = np.eye(n_way)[[known.get(i, guess.get(i)) for i in range(len(rows))]]
    weights = unit(np.array([sum(rows[i] for i in known if known[i] == c) for c in range(n_way)]))
    offset, losses = np.zeros(n_way), np.zeros(len(rows))
    weight_velocity, offset_velocity = np.zeros_like(weights), np.zeros(n_way)
    for _ in range(n_steps):
        p = np.array([softmax(z) for z in rows @ weights.T + offset])
        losses -= np.log((p * target).sum(axis=1)) / n_steps
        slope = (p - target) / len(rows)
        weight_velocity = 0.9 * weight_velocity + slope.T @ rows + 5e-4 * weights
        offset_velocity = 0.9 * offset_velocity + slope.sum(axis=0) + 5e-4 * offset
        weights, offset = weights - 0.1 * weight_velocity, offset - 0.1 * offset_velocity
    return losses


def manifold_logits(rows, centroids, exponents, weights, n_neighbors, damping):
    """Lazarou et al. (WACV 2024), section 3: labels spread from the centroids over the graph of all nodes."""
    nodes, n_way = np.concatenate([centroids, rows]), len(centroids)
    apart = np.array([[np.linalg.norm(x - z) for z in nodes] for x in nodes])
    edges = np.zeros_like(apart)
    for i in range(n_way, len(nodes)):
        for j in range(len(nodes)):
            edges[i, j] = np.exp(-exponents[i, j] * apart[i, j] / apart.std(ddof=1)) if i != j else 0.0
        edges[i, np.argsort(edges[i])[: len(nodes) - n_neighbors]] = 0.0
    graph = weights * (edges + edges.T) / 2
    root = np.diag(graph.sum(axis=1) ** -0.5)
    known = np.eye(len(nodes), n_way)
    return 15.0 * (np.linalg.inv(np.eye(len(nodes)) - damping * root @ graph @ root) @ known)[n_way:]


def adaptive_manifold(support, labels, query, n_way, alpha, n_neighbors, damping, n_steps, learning_rate):
    """The loss's finite differences, and Adam."""
    support, query = peme(support, query)
    rows, size = np.concatenate([support, query]), n_way + len(support) + len(query)
    shapes = [(n_way, support.shape[1]), (size, size), (size, size)]

    def logits(parameters):
        pieces = np.split(parameters, np.cumsum([np.prod(shape) for shape in shapes])[:-1])
        parts = [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]
        return manifold_logits(rows, *parts, n_neighbors, damping)

    def loss(parameters):
        p = np.array([softmax(z) for z in logits(parameters)])
        known, q = p[: len(support)], p[len(support) :]
        marginal = (1 - (q.mean(axis=0) ** alpha).sum()) / (alpha - 1)
        conditional = ((1 - (q**alpha).sum(axis=1)) / (alpha - 1)).mean()
        return -np.log(known[np.arange(len(labels)), labels]).mean() - marginal + conditional

    start = [means(support, labels, n_way).ravel(), np.ones(size**2), np.full(size**2, damping)]
    parameters = np.concatenate(start)
    mean, square = np.zeros_like(parameters), np.zeros_like(parameters)
    for step in range(1, n_steps + 1):
        slope = np.zeros_like(parameters)
        for k in range(len(parameters)):
            ahead, behind = parameters.copy(), parameters.copy()
            ahead[k], behind[k] = ahead[k] + 1e-5, behind[k] - 1e-5
            slope[k] = (loss(ahead) - loss(behind)) / 2e-5
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        change = (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
        parameters = parameters - learning_rate * change
    return logits(parameters)[len(support) :]


def unem(support, labels, query, n_way, scale, balance, softness):
    """Zhou et al., Algorithm 1 with the Gaussian model, in feature space."""
    support, query = (scale * rows for rows in cl2n(support, query))
    prototypes, pull = means(support, labels, n_way), np.zeros(n_way)
    for weight, temperature in zip(balance, softness, strict=True):
        u = np.array([softmax((-d / 2 + weight * pull) / temperature) for d in distances(query, prototypes)])
        pull = np.log(u.mean(axis=0) + 1e-6) + 1
        members = np.concatenate([np.eye(n_way)[labels], u])
        prototypes = (members.T @ np.concatenate([support, query])) / members.sum(axis=0)[:, None]
    return u


def prototypes_and_prior(support, labels, query, n_way, sharpness):
    support, query = unit(support), unit(query)
    names = unit(means(support, labels, n_way))
    return support, query, names, np.array([softmax(sharpness * names @ x) for x in query])


def nearest_cosines(rows, others, n, itself):
    """Cosines of each row to its n nearest others, elsewhere 0."""
    edges = np.zeros((len(rows), len(others)))
    for i, row in enumerate(rows):
        cosines = others @ row
        order = [j for j in np.argsort(-cosines) if not (itself and j == i)]
        edges[i, order[:n]] = cosines[order[:n]]
    return edges


def smoothed(log_likelihood, prior, power, pulls, edges, assignments, n_neighbors):
    """Five rounds of the z-step of TransCLIP and StatA, as their code writes it."""
    for _ in range(5):
        inner = log_likelihood + 50 / (2 * n_neighbors) * (edges.T @ assignments + edges @ assignments + pulls)
        raw = prior**power * np.exp((inner - inner.max(axis=1, keepdims=True)) / 50)
        assignments = raw / raw.sum(axis=1, keepdims=True)
    return assignments


def gaussians(query, centres, variances):
    return np.array([[-0.5 * ((x - c) ** 2 / v).sum() for c, v in zip(centres, variances, strict=True)] for x in query])


def stata(support, labels, query, n_way, prior=None):
    """Zanella et al., CVPR 2025: means and variances between what the queries say and their anchors."""
    _, query, names, own = prototypes_and_prior(support, labels, query, n_way, 100.0)
    prior = own if prior is None else prior
    edges = nearest_cosines(query, query, 3, itself=True)
    anchor = np.mean([[prior[i, k] * (query[i] - names[k]) ** 2 for k in range(n_way)] for i in range(len(query))], 0)
    anchor = np.tile(anchor.sum(axis=0), (n_way, 1))
    centres, variances, members = names, anchor, prior
    for step in range(11):
        likelihood = gaussians(query, centres, variances) - 0.5 * np.log(variances).sum(axis=1)
        members = smoothed(likelihood, prior, 1.0, 0.0, edges, members, 3)
        if step == 10:
            return members
        counts = np.bincount(members.argmax(axis=1), minlength=n_way)[:, None]
        trust = counts / (1.0 + counts)
        centres = unit(trust * unit(members.T @ query) + (1 - trust) * names)
        found = [np.average((query - centres[k]) ** 2, axis=0, weights=members[:, k]) for k in range(n_way)]
        variances = trust * np.array(found) + (1 - trust) * (anchor + (names - centres) ** 2)
    return None


def transclip(support, labels, query, n_way, support_weight, power, prior=None):
    """Zanella et al., NeurIPS 2024, equations (4) to (7); without support as in the authors' code for names alone."""
    support, query, centres, own = prototypes_and_prior(support, labels, query, n_way, 100.0)
    prior = own if prior is None else prior
    known = np.eye(n_way)[labels]
    edges = nearest_cosines(query, query, 3, itself=True)
    pulls = nearest_cosines(support, query, 3, itself=False).T @ known if support_weight else 0.0
    weight = 50 * support_weight / len(support)
    variance, members = np.full(query.shape[1], 1 / query.shape[1]), prior
    for step in range(11):
        likelihood = gaussians(query, centres, [variance] * n_way)
        members = smoothed(likelihood, prior, power, pulls, edges, members, 3)
        if step == 10:
            return members
        centres = unit(members.T @ query / len(query) + weight * known.T @ support)
        spread = sum((members[:, [k]] * (query - centres[k]) ** 2).mean(axis=0) for k in range(n_way))
        spread = spread + sum(weight * (known[:, [k]] * (support - centres[k]) ** 2).sum(axis=0) for k in range(n_way))
        variance = spread / (1 + 50 * support_weight)
    return None


def zlap(support, labels, query, n_way, n_neighbors, n_names, power, alpha):
    """Stojnić et al., CVPR 2024: one column of (I − α S)⁻¹ a class."""
    _, query, names, _ = prototypes_and_prior(support, labels, query, n_way, 1.0)
    weights = np.zeros((n_way + len(query),) * 2)
    weights[n_way:, n_way:] = np.maximum(nearest_cosines(query, query, n_neighbors, itself=True), 0)
    weights[n_way:, :n_way] = np.maximum(nearest_cosines(query, names, n_names, itself=False), 0) ** power
    weights = weights + weights.T
    degrees = weights.sum(axis=1)
    degrees[degrees == 0] = 1.0
    return np.linalg.inv(np.eye(len(weights)) - alpha * weights / np.sqrt(np.outer(degrees, degrees)))[n_way:, :n_way]


def dirichlet(mean_logs):
    """Maximum likelihood by SciPy."""

    def loss(logs):
        parameters = np.exp(logs)
        return gammaln(parameters).sum() - gammaln(parameters.sum()) - (parameters - 1) @ mean_logs

    options = {"xatol": 1e-10, "fatol": 1e-13, "maxiter": 9999}
    return np.exp(minimize(loss, np.zeros(len(mean_logs)), method="Nelder-Mead", options=options).x)


def em_dirichlet(support, query, labels, n_way, n_rounds, hard=False):
    """Martin et al., CVPR 2024, on probabilities of support and queries; every estimate at its maximum."""
    members, known = query, np.eye(n_way)[labels]
    for _ in range(n_rounds):
        sums = known.T @ np.log(support + 1e-15) + members.T @ np.log(query + 1e-15)
        parameters = [dirichlet(sums[k] / (known.sum(axis=0) + members.sum(axis=0))[k]) for k in range(n_way)]
        price = np.log(members.mean(axis=0) + 1e-15)
        logits = [
            [gammaln(a.sum()) - gammaln(a).sum() + (a - 1) @ np.log(z + 1e-15) for a in parameters] for z in query
        ]
        assignments = np.array([softmax(row + price) for row in np.array(logits)])
        members = np.eye(n_way)[assignments.argmax(axis=1)] if hard else assignments
    return assignments


def lp_plus_plus(support, labels, query, n_way, prior, support_prior, n_steps, sharpness=100.0):
    """LP++ written out; the text logits are the logarithms of the prior over the sharpness, of mean 0."""
    support, query = unit(support), unit(query)
    of_support, of_query = (np.log(np.maximum(p, 1e-6)) / sharpness for p in (support_prior, prior))
    of_support, of_query = (logs - logs.mean(axis=1, keepdims=True) for logs in (of_support, of_query))
    n = len(support)
    weights = np.stack([support[labels == c].sum(axis=0) for c in range(n_way)])
    blend = np.full(n_way, 62.5)
    step = 4.0 * n / np.linalg.eigvalsh(support.T @ support).max()
    blend_step = n / (4.0 * (of_support**2).sum(axis=0).max())
    velocity = np.zeros_like(weights)
    for number in range(1, n_steps + 1):
        probabilities = np.array([softmax(scores) for scores in support @ weights.T + blend * of_support])
        for_weights, for_blend = np.zeros_like(weights), np.zeros(n_way)
        for i in range(n):
            for c in range(n_way):
                surplus = (probabilities[i, c] - (labels[i] == c)) / n
                for_weights[c] += surplus * support[i]
                for_blend[c] += surplus * of_support[i, c]
        velocity = 0.9 * velocity + for_weights
        weights = weights - step * velocity
        if number % 10 == 0:
            blend = blend - blend_step * for_blend
    return query @ weights.T + blend * of_query
