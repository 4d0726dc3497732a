"""The encoder in numpy, without torch: for a single query, which is computed in less time than torch takes to be imported.

Same weights, same formulas as the modules beside this folder, hidden states only; a test holds the two together. Sequences
are packed as in `packed`: runs of equal length, one matrix for all positions, only attention goes run by run.
"""
