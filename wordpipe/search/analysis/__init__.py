"""What becomes of the words of texts and questions: terms, the small words of languages, and which language texts are in."""
