"""Contrastive training: two texts that belong together should be nearer to each other than to anything else.

Read in this order, of both encoders: `settings`, `pairs` (rows → flat files of ids on disk → pairs), `pair_kernels` (the
compiled choice of pieces), `info_nce` (the loss). Of a static table: `static_table` (what it begins as), `row_adam` (the
optimiser of touched rows), `static`. Of a transformer: `transformer`.

As in the other trainings, everything that happens in step s is a function of (seed, s): which pairs, which words of them
are left out, the learning rate.
"""
