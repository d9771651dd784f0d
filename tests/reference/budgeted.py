"""A kernel machine on a budget in plain numpy, everything in float64 and made anew at each step: slow and clear."""

import numpy as np


def gaussian(X, Z, gamma):
    """exp(-gamma |x - z|^2), (len(X), len(Z))."""
    return np.exp(-gamma * ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2))


def best_merge(m, k):
    """h in [0, 1] and wd: the best of very many h, made finer around it."""
    low, high = 0.0, 1.0
    for _ in range(6):
        h = np.linspace(low, high, 2001)
        s = m * k ** ((1 - h) ** 2) + (1 - m) * k ** (h**2)
        best = h[s.argmax()]
        low, high = max(0.0, best - (h[1] - h[0])), min(1.0, best + (h[1] - h[0]))
    return best, m * m + (1 - m) ** 2 + 2 * m * (1 - m) * k - s.max() ** 2


class Reference:
    """Vectors `Z` with coefficients `beta`; `row` says which row one still is, -1 if it was merged."""

    def __init__(self, X, y, C, gamma, budget, is_gradient=False, wd=lambda m, k: best_merge(m, k)[1]):
        self.wd = wd  # by which a partner is chosen
        self.X, self.y, self.C, self.gamma, self.budget = X, y, np.broadcast_to(C, len(y)), gamma, budget
        self.is_gradient = is_gradient
        self.Z, self.beta, self.row = np.empty((0, X.shape[1])), np.empty(0), np.empty(0, int)
        self.alpha, self.degradation, self.visits = np.zeros(len(y)), 0.0, 0

    @property
    def factor(self):
        return 1.0 / max(self.visits, 1) if self.is_gradient else 1.0

    def f(self, X):
        return self.factor * gaussian(X, self.Z, self.gamma) @ self.beta

    def visit(self, i):
        g = 1 - self.y[i] * self.f(self.X[i : i + 1])[0]
        self.visits += 1
        if self.is_gradient:
            d = len(self.y) * self.C[i] * (g > 0)
        else:
            d = np.clip(self.alpha[i] + g, 0, self.C[i]) - self.alpha[i]
            self.alpha[i] += d
        if d:
            self._add(i, self.y[i] * d)
        if len(self.beta) > self.budget:
            self._merge()
        return g

    def _add(self, i, step):
        own = np.flatnonzero(self.row == i)
        if len(own):
            self.beta[own[0]] += step
            if self.beta[own[0]] == 0:
                self._remove(own[0])
            return
        self.Z, self.beta = np.vstack([self.Z, self.X[i]]), np.append(self.beta, step)
        self.row = np.append(self.row, i)

    def _remove(self, s):
        self.Z, self.beta, self.row = (np.delete(array, s, axis=0) for array in (self.Z, self.beta, self.row))

    def _merge(self):
        i = np.abs(self.beta).argmin()
        others = [j for j in range(len(self.beta)) if j != i and self.beta[j] * self.beta[i] > 0]
        if not others:
            self.degradation += self.beta[i] ** 2
            self._remove(i)
            return
        found = []
        for j in others:
            k = gaussian(self.Z[[i]], self.Z[[j]], self.gamma)[0, 0]
            total = self.beta[i] + self.beta[j]
            found.append((total**2 * self.wd(self.beta[i] / total, k), j, k, total))
        _, j, k, total = min(found)
        m = self.beta[i] / total
        h, wd = best_merge(m, k)
        self.Z[j] = h * self.Z[i] + (1 - h) * self.Z[j]
        self.beta[j] = total * (m * k ** ((1 - h) ** 2) + (1 - m) * k ** (h**2))
        self.row[j] = -1
        self.degradation += total**2 * wd
        self._remove(i)
