"""Training: from a stream of token ids to a trained model, exactly repeatable.

Read in this order: `settings`, `plan` (what the settings come to), `stream` (documents → one file of ids), `word_starts`,
`blocks` (that file → sequences), `masking` and `objectives` (sequences → inputs and targets), `schedules`, `muon` and
`optimisers`, `precision` and `execution` (device and numbers), `batches`, `gradient_step`, `validation`, `state`,
`reports` with `reachable` (how fast it could be), `loop`. Beside it stand `probe` (the micro-batch), `verify` (proof of exact
resume), `parallel` and `exchange` (several processes), and `scoring` (a finished model judged).

Everything that happens in step s is a function of (seed, s): the sequences, the masks, the dropout, the learning rate.
There is no iterator and no generator whose state would have to be saved, so a run that was killed and continued ends
with the same bytes as one that was not.
"""
