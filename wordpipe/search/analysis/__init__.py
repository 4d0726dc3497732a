"""Terms of texts and questions: the rules of words, the small words of languages, and the language that texts are in."""
