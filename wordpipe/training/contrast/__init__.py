"""Contrastive training: two texts that belong together should be nearer to each other than to anything else.

Read in this order, of both encoders: `settings`, `pair_text` (rows → flat files of ids on disk), `cutting` (the compiled
choice of pieces), `batch` and `positives` (those files → pairs), `loss` (InfoNCE) with `queue`. Of a static table:
`table_start` (what it begins as), `row_adam` (the optimiser of touched rows), `static_training`. Of a transformer:
`encoder_settings`, `sequences`, `vectors`, `learner` with `contrast_learner`, `relations` (a teacher), `masked_beside`,
`denoising` and `mean_start`, then `encoder_plan`, `held_out`, `encoder_training`, and `encoder_assembly`, which puts them
together.

As in the other trainings, everything that happens in step s is a function of (seed, s): which pairs, which words of them
are left out, the learning rate.
"""
