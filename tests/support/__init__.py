"""What tests of several rooms share: slow twins, made texts and artifacts, processes that are killed."""
