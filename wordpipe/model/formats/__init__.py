"""Models as the folders of Hugging Face `transformers`, and back.

`folder` has what the rest of the house calls. A folder is `config.json`, which says the class of the model and its sizes,
and `model.safetensors`, the weights by name. Every class that computes what some of our models compute has a file here,
which says which models those are, what its keys and weights are called and how ours become theirs:

    encoder     modernbert    bert
    decoder     llama (and mistral)    gpt2
    either      own: what transformers has no class for, in our own words

Read in this order: `family` (what such a file has to say), `llama` (the shortest of them), `families` (the choice), `folder`
(bytes to weights, their names to ours).
"""
