"""Training: from a stream of token ids to a trained model, exactly repeatable.

Read in this order: `settings`, `plan` (what the settings come to), `stream` (documents → one file of ids), `blocks`
(that file → sequences), `objectives` (sequences → inputs and targets), `schedules`, `optimisers`, `validation`,
`state` (checkpoints), `loop`.

Everything that happens in step s is a function of (seed, s): the sequences, the masks, the dropout, the learning rate.
There is no iterator and no generator whose state would have to be saved, so a run that was killed and continued ends
with the same bytes as one that was not.
"""
