"""Where a solver's rows come from: the cache, step by step or block by block, and the trainer's own disk.

The life of a row in a job, from its arrival to its last visit. Of each row the state files hold (storage.run.state):

    visited   the last pass in which the trainer visited it
    skipped   the last pass in which it streamed by while it was in the cache
    score     how little it had left to teach at its last visit: minus its term of the duality gap, or, if it rests at
              a bound, by how much; +inf: given up (streamsvm_paper)

and the reader knows which rows are resident, in the cache, and which are leaving: evicted by the last commit.

    from        what happens                                          to            who decides
    ---------   ---------------------------------------------------   -----------   -----------------------------------
    away        streams by, at rest beyond the screening's slack      away          stream.screening; counts as visited
    away        streams by, else                                      fresh         stream.arrivals
    fresh       its first visit; collected on disk, if that is open   resident      solvers.streamsvm
    resident    visited in a round over the cache                     resident      trainer.sweeps.sweep
    resident    streams by: skipped, it waits for a visit             resident      stream.arrivals
    resident    has the highest score when room is needed, and does   leaving       stream.residents, rows.repack
                not wait for a visit
    leaving     the next step is committed                            away          stream.residents
    any         all rows are at hand, on disk or in the cache: from   swept         trainer.rows.disk, .cache
                now on the reader rests
    swept       a whole sweep visits it; at rest beyond the slack,    swept         trainer.sweeps.run
                it is left out of the short sweeps that follow
    swept       the disk fails                                        away, or      trainer.rows.disk
                                                                      resident
"""
