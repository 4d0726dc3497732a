"""Trained models asked: masks filled, texts continued and written, labels, answers."""
