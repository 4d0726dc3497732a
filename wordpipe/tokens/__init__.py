"""Tokenizers and words: training, encoding, and how often each word occurs.

`settings` of the command; `counting` cuts rows and counts pre-tokens, `training` makes a tokenizer of the counts, `encoding`
and `decoding` use it, `read` and `write` are the files of other programs, `evaluate` measures. `pretokenizers` and
`normalizers` do to text what tokenizers does before its models see it; `words` are ours, `vocabulary` what ids mean. The
compiled loops of `kernels`: `scan` cuts, `string_table` counts, `pretoken_models` and `bpe_encode` encode, the others train.
"""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.tokens.counting import (
        PARTS,
        TABLE_BYTES,
        MostFrequent,
        RowCutter,
        SpillingTable,
        StringCounts,
        count_batch,
        cut_pretokens,
        cut_words,
        keep_most_frequent,
        row_buffers,
        sorted_by_count,
        sum_runs,
        table_contents,
    )
    from wordpipe.tokens.decoding import MaskTokenizer, TextStream, readable_tokens
    from wordpipe.tokens.encoding import (
        FIGURES,
        FIGURES_OF_PAIRS,
        CorpusEncoder,
        Encoder,
        RowEncoder,
        SpanEncoder,
        in_order,
        list_array,
        model_of,
    )
    from wordpipe.tokens.evaluate import OTHERS, TokenizerEvaluation, WordFertility
    from wordpipe.tokens.kernels.pretoken_models import PretokenModel
    from wordpipe.tokens.kernels.scan import SCANNERS, UNSPACED, code_point_classes
    from wordpipe.tokens.kernels.string_table import StringTable
    from wordpipe.tokens.normalizers import AddedTokens, RowNormalizer, added_token_patterns
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
    from wordpipe.tokens.read import library_errors, named_tokens, open_tokenizer, read_tokenizer
    from wordpipe.tokens.training import train_chars, train_tokenizer, train_words, training_bytes
    from wordpipe.tokens.vocabulary import (
        SPECIAL_TOKENS,
        UNK,
        byte_letters,
        drops_unknown_characters,
        frame_of,
        is_byte_level,
        number_of_ids,
        offsets_of,
        special_names,
        text_ids,
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
        fold_runs,
        run_splitter,
    )
    from wordpipe.tokens.write import (
        FOLDERS,
        FORMATS,
        FRAMES,
        N_SENTINELS,
        ExportedTokenizer,
        export_tokenizer,
        framed_tokenizer,
        sentinel_ids,
        transformers_files,
        with_sentinels,
    )
else:
    __getattr__, __dir__ = face(__name__, __file__)
