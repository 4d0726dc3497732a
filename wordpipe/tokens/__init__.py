"""Tokenizers and words: training, encoding, and how often each word occurs."""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.tokens.counting import (
        PARTS,
        TABLE_BYTES,
        Kept,
        Pretokens,
        SpillingTable,
        added_up,
        contents,
        keep_commonest,
        sorted_units,
    )
    from wordpipe.tokens.cutting import Cut, cut_pretokens, cut_words, row_buffers, split_long
    from wordpipe.tokens.decoding import Gaps, TextStream
    from wordpipe.tokens.encoding import Encoder, Gatherer, RowEncoder, in_order, list_array, model_of
    from wordpipe.tokens.evaluate import OTHERS, TokenizerEvaluation, WordPieces
    from wordpipe.tokens.kernels.codepoints import UNSPACED, code_point_classes
    from wordpipe.tokens.kernels.scan import SCANNERS
    from wordpipe.tokens.kernels.table import UnitTable
    from wordpipe.tokens.ragged import offsets_of
    from wordpipe.tokens.read import Foreign, named_tokens, open_tokenizer, read_tokenizer
    from wordpipe.tokens.schemes import (
        ANY_MARK,
        CHARACTERS,
        CL100K,
        GPT2,
        Scheme,
        build_tokenizer,
        empty_tokenizer,
        resolve,
        scheme_of,
        script_shares,
    )
    from wordpipe.tokens.training import train_chars, train_tokenizer, train_words, training_bytes
    from wordpipe.tokens.vocabulary import (
        SPECIAL_TOKENS,
        UNK,
        byte_letters,
        frame_of,
        is_byte_level,
        loses_letters,
        number_of_ids,
        token_bytes,
        unknown_token,
        vocabulary_of,
    )
    from wordpipe.tokens.wordlist import WordNumbers, fold_counts
    from wordpipe.tokens.words import WordSplitter, piece_splitter
    from wordpipe.tokens.write import (
        FOLDERS,
        FORMATS,
        Export,
        export_tokenizer,
        framed_tokenizer,
        special_names,
        transformers_files,
    )
else:
    __getattr__, __dir__ = face(__name__, __file__)
