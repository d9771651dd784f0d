"""Second-order training: proximal steps on the dual, each by a few Newton steps that scan the rows in order.

A task's problem is solved by a sequence of easier ones (Rockafellar 1976, "Augmented Lagrangians and applications of
the proximal point algorithm"; Yan, Li, arXiv 1912.06800). Given a centre a, which is some alpha in its box, and
sigma > 0,

    minimise over w   phi(w) = 1/2 |w|^2 + sum_i psi_i(m_i),   psi_i' = -alpha_i(m_i),

where m_i is the margin (or residual) of row i at w, and alpha_i(m_i) the best alpha if a move away from a_i costs
(alpha_i - a_i)^2 / (2 sigma C_i): see `proximal` in trainer.problem.losses. phi has a derivative, piecewise linear for
hinge loss. Newton's method finds its minimum. With h_i >= 0, how fast alpha_i falls as m_i rises, a step d solves

    (I + sum_i h_i x_i x_i') d = -(w - sum_i alpha_i y_i x_i),

to which only rows with h_i > 0 contribute. The exact line search along d needs only the numbers m_i and <d, x_i>, no
rows. When w has nearly come to rest, alpha is the next centre, and sigma grows. A smooth loss needs no centre: sigma is
infinite.

alpha is in its box at every moment. P(w) bounds the optimum from above, and D(alpha), with v = sum_i alpha_i y_i x_i,
from below. A step takes two scans: one adds up v and the system, the next computes <d, x_i> of all rows. Scans read
rows in the order in which they are stored, and add up in one order with any number of threads: so the result is the
same to the byte. Between scans, tasks are worked on side by side, each by one thread: the line searches, and small
systems.

  choice.py         whether Newton steps or more sweeps would end training sooner
  memory.py         how many bytes Newton steps would hold
  phase.py          the steps in a job: when they begin and end, and what the job shows of them
  run.py            all tasks of a job, over all rows
  task.py           a task: its centre, its steps, the line search along each, when it is near enough
  requests.py       what steps ask of the rows, and how the answers of several machines add up
  own_rows.py       answers requests for the rows of one machine; holds numbers of each row in each task meanwhile
  scans.py          reading all rows in order, by several threads
  system.py         the system of a task, and its solution
  system_kernel.py  compiled loops that add rows to a system's matrix
"""
