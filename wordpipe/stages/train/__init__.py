"""Training: word vectors, language models, encoders of texts."""
