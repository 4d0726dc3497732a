"""Training: from a stream of token ids to a trained model, exactly repeatable.

Read in this order: `settings`, `plan` (what the settings come to), `token_stream` (documents → one file of ids), `sequences`
(that file → blocks in an order), `masking` and `objectives` (blocks → inputs and targets), `cross_entropy`, `schedules`,
`optimisers`, `precision` (device and numbers), `validation`, `distributed` (several processes), `checkpoint`, `trainer` (the
loop) and `learner` (what it trains). `contrast` has the learners of text encoders.

Everything that happens in step s is a function of (seed, s): the sequences, the masks, the dropout, the learning rate.
There is no iterator and no generator whose state would have to be saved, so a run that was killed and continued ends
with the same bytes as one that was not.
"""
