"""Second-order training: proximal steps on the dual, each by a few Newton steps that scan the rows in order.

A task's problem is solved by a row of easier ones (Rockafellar 1976, "Augmented Lagrangians and applications of the
proximal point algorithm"; Yan, Li, arXiv 1912.06800). With a centre a, an alpha in its box, and sigma > 0,

    minimise over w   phi(w) = 1/2 |w|^2 + sum_i psi_i(m_i),   psi_i' = -alpha_i(m_i),

where alpha_i(m_i) is the alpha that is best for row i if moving from a_i costs (alpha_i - a_i)^2 / (2 sigma): see
`proximal` in trainer.problem.losses. phi has a derivative, piecewise linear for hinge loss. Its minimum is found by
Newton's method: rows whose alpha_i moves with m_i (h_i > 0) make the system

    (I + sum_i h_i x_i x_i') d = -(w - sum_i alpha_i y_i x_i),

an exact line search along d needs m_i and <d, x_i> alone, and so no rows. When w has nearly come to rest, alpha is the
next centre, and sigma grows. A smooth loss needs no centre: sigma is infinite.

alpha is in its box at every moment. With w and v, the w of alpha, P(w) bounds the optimum from above and D(alpha) from
below. A step takes two scans, <d, x_i> of all rows, then v and the system. Scans read rows in the order in which they
lie, and add up in the same order whatever the number of threads: so the result is the same to the byte.

  rows.py         what is known of each row while the phase lasts
  scans.py        reading all rows in order, by several threads
  system.py       the system of a task, and its solution
  line_search.py  the best step along a direction
  task.py         a task: its centre, its steps, when it is near enough
  run.py          all tasks of a job over a store of rows
  choice.py       whether this is the quicker end of training
"""
