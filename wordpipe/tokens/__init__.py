"""Tokenizers and words: training, encoding, and how often each word occurs."""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.tokens.counting import (
        PARTS,
        TABLE_BYTES,
        Cut,
        Kept,
        Pretokens,
        SpillingTable,
        added_up,
        contents,
        cut_pretokens,
        cut_words,
        keep_commonest,
        row_buffers,
        sorted_units,
        split_long,
    )
    from wordpipe.tokens.decoding import Gaps, TextStream
    from wordpipe.tokens.encoding import Encoder, Gatherer, RowEncoder, in_order, list_array, model_of
    from wordpipe.tokens.evaluate import OTHERS, TokenizerEvaluation, WordPieces
    from wordpipe.tokens.kernels.codepoints import UNSPACED, code_point_classes
    from wordpipe.tokens.kernels.scan import SCANNERS
    from wordpipe.tokens.kernels.table import UnitTable
    from wordpipe.tokens.kernels.wordpiece import UnitModel
    from wordpipe.tokens.normalizers import AddedTokens, Normaliser, added_token_patterns
    from wordpipe.tokens.pretokenizers import (
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
    from wordpipe.tokens.read import Foreign, named_tokens, open_tokenizer, read_tokenizer
    from wordpipe.tokens.training import train_chars, train_tokenizer, train_words, training_bytes
    from wordpipe.tokens.vocabulary import (
        SPECIAL_TOKENS,
        UNK,
        byte_letters,
        frame_of,
        is_byte_level,
        loses_letters,
        number_of_ids,
        offsets_of,
        token_bytes,
        unknown_token,
        vocabulary_of,
    )
    from wordpipe.tokens.words import (
        ASCII_WORD_PATTERN,
        SPACED_LETTER,
        UNSPACED_SCRIPTS,
        UNSPACED_START,
        WORD_PATTERN,
        WordNumbers,
        WordSplitter,
        fold_counts,
        piece_splitter,
    )
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
