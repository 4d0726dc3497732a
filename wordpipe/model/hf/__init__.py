"""Models as the folders of Hugging Face `transformers`, and back.

A folder is `config.json`, which says the class of the model and its sizes,
and `model.safetensors`, the weights by name. `classes` has a table for every class that computes what some of our models
compute:

    encoder     modernbert    bert
    decoder     llama (and mistral)    gpt2

and `families` our own format, for what transformers has no class for. Read in this order: `mapping` (what is in such a table),
`classes`, `encoders` and `encoder_decoders` (the tables), `families` (the choice), `folder` (bytes to weights, their names to
ours).
"""
