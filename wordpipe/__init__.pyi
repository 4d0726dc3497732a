"""The public functions and classes, for type checkers and editors. Made by `make stub`: change no line here."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from typing import Literal
from typing import overload
from wordpipe.corpus.settings import IngestSettings as IngestSettings
from wordpipe.encoders.settings import EmbedSettings as EmbedSettings
from wordpipe.errors import ArtifactError as ArtifactError
from wordpipe.errors import BudgetError as BudgetError
from wordpipe.errors import ConfigError as ConfigError
from wordpipe.errors import DivergedError as DivergedError
from wordpipe.errors import InputError as InputError
from wordpipe.errors import LockedError as LockedError
from wordpipe.errors import PeerError as PeerError
from wordpipe.errors import StorageError as StorageError
from wordpipe.errors import UnknownWordError as UnknownWordError
from wordpipe.errors import WordpipeError as WordpipeError
from wordpipe.errors import WordpipeWarning as WordpipeWarning
from wordpipe.heads import Answered as Answered
from wordpipe.heads import Classified as Classified
from wordpipe.heads import Prediction as Prediction
from wordpipe.heads import Tagged as Tagged
from wordpipe.heads.settings import ClassifierSettings as ClassifierSettings
from wordpipe.heads.settings import PredictSettings as PredictSettings
from wordpipe.heads.settings import ReaderSettings as ReaderSettings
from wordpipe.heads.settings import TaggerSettings as TaggerSettings
from wordpipe.metrics.figures import Evaluation
from wordpipe.model.settings import FillSettings as FillSettings
from wordpipe.model.settings import GenerateSettings as GenerateSettings
from wordpipe.pipeline import Pipeline as Pipeline
from wordpipe.pipeline.project import Project
from wordpipe.pipeline.run import StageStatus
from wordpipe.runtime import Progress as Progress
from wordpipe.runtime import Stopped as Stopped
from wordpipe.search.settings import ClusterSettings as ClusterSettings
from wordpipe.search.settings import IndexSettings as IndexSettings
from wordpipe.search.settings import QueryOptions as QueryOptions
from wordpipe.stages import FoundAnswer as FoundAnswer
from wordpipe.stages import Made as Made
from wordpipe.stages import OpenArtifact as OpenArtifact
from wordpipe.stages import OpenClusters as OpenClusters
from wordpipe.stages import OpenEncoder as OpenEncoder
from wordpipe.stages import OpenIndex as OpenIndex
from wordpipe.stages import OpenModel as OpenModel
from wordpipe.stages import OpenSentences as OpenSentences
from wordpipe.stages import OpenTable as OpenTable
from wordpipe.stages import OpenWords as OpenWords
from wordpipe.stages import PathLike
from wordpipe.stages import Predictor as Predictor
from wordpipe.stages import RunOptions as RunOptions
from wordpipe.stages import Target as Target
from wordpipe.stages import TargetWriter as TargetWriter
from wordpipe.stages import Written as Written
from wordpipe.stages.text.fill import Filled
from wordpipe.stages.text.generate import Generated
from wordpipe.tokens.settings import TokenizeSettings as TokenizeSettings
from wordpipe.training.contrastive.settings import ContrastiveSettings as ContrastiveSettings
from wordpipe.training.contrastive.settings import StaticSettings as StaticSettings
from wordpipe.training.settings import CausalSettings as CausalSettings
from wordpipe.training.settings import DenoisingSettings as DenoisingSettings
from wordpipe.training.settings import ElectraSettings as ElectraSettings
from wordpipe.training.settings import MaskedSettings as MaskedSettings
from wordpipe.training.settings import PermutationSettings as PermutationSettings
from wordpipe.training.settings import Seq2SeqSettings as Seq2SeqSettings
from wordpipe.web import Server as Server
from wordpipe.web.settings import ServeSettings as ServeSettings
from wordpipe.words.settings import ImportSettings as ImportSettings
from wordpipe.words.settings import Word2VecSettings as Word2VecSettings

__version__: str
TERMINAL: str

def ask(
    model: PathLike | Predictor, question: str, *, index: PathLike | None = None,
    passages: PathLike | Iterable[Any] | None = None, k: int = 5, read: int = 10, verify: bool = True,
) -> list[FoundAnswer]:
    """The best answers to a question, out of the texts of an index or of a corpus.

    Args:
        model: a model of train reader, a folder of transformers with a class for answers, or what `open_predictor` has opened.
        question: one text.
        index: an index over texts: it is searched, and the best texts are read.
        passages: a corpus, or any source of text: every document is read.
        k: answers wanted, at most.
        read: texts of the index that are read.
        verify: check artifacts' hashes first.
    """

def attention(
    model: PathLike, text: str, second: str | None = None, *, output: PathLike | None = None,
    data: PathLike | Iterable[Any] | None = None, importance: bool = False, sample: int = 10000, replace: bool = True,
    run: RunOptions | None = None,
) -> dict[str, Any]:
    """Look at the attention of a model in a text: all weights of all heads, computed exactly, and where each head looks.

    Args:
        model: a model artifact, also one with a head, or a folder of transformers.
        text: to be read; of an encoder-decoder the source.
        second: the second text of a pair; of an encoder-decoder the target text, else it writes its own.
        output: an HTML file to write, which needs nothing beside it; None: none.
        data: a corpus artifact or text: heads are named by what they do over it; None: over this text alone.
        importance: measure how much the loss on `data` rises when each head is switched off.
        sample: about so many tokens of `data` are read.
        replace: false refuses to replace a file.
        run: progress, verification.

    Returns:
        path (of the page or None), bytes, model, architecture, said (what the model made of the text), tokens (side → shown,
        number: the word of each, words), stacks (list of name, rows and columns: sides, weights, norms: ‖α f(v)‖, words:
        the weights of words, rollout: None of cross-attention, names, shares, importance), over, loss (what importance is the
        rise of, before; else None), cut (tokens that the model had no room for), notes.

        Weights (layers, heads, queries, keys) are rounded to six digits.
    """

def cluster(
    sentences: PathLike, *, output: PathLike, run: RunOptions | None = None, k: int | Literal['auto'] = 'auto',
    central: int = 3, label_words: int = 5,
    language: Literal['auto', 'none', 'arabic', 'armenian', 'basque', 'catalan', 'danish', 'dutch', 'english', 'finnish', 'french', 'german', 'greek', 'hindi', 'hungarian', 'indonesian', 'irish', 'italian', 'lithuanian', 'nepali', 'norwegian', 'portuguese', 'romanian', 'russian', 'serbian', 'spanish', 'swedish', 'tamil', 'turkish', 'yiddish'] = 'auto',
    seed: int = 1, threads: int = 0,
) -> Made:
    """Part texts into clusters of those that are near each other, and say what each is about.

    The artifact holds two tables. `clusters`: cluster (0 is the largest), size, share, label (words), central (the texts
    nearest to the centre, the nearest first), central_rows and vector (the centre). `members`: row (of the sentences),
    record_id where the records had ids, doc_id, title, text, source, line, anchor where there are any, cluster and similarity
    (cosine with the centre), as the sentences are ordered. Texts without a vector are in none: their cluster is -1.

    Args:
        sentences: a sentences artifact.
        output: folder of the clusters artifact.
        run: progress, fresh start, verification.

    Settings:
        k: how many clusters; auto: the number that stands out most from chance, by its silhouette. Default: 'auto'.
        central: texts nearest to its centre that are kept of each cluster (1 to 20). Default: 3.
        label_words: words that each cluster is labelled with (0 to 20). Default: 5.
        language: whose endings are cut off (Snowball) and small words left out; auto: the one that is recognised, or none. Default: 'auto'.
        seed: seed of k-means and of the samples. Default: 1.
        threads: threads, 0 = one per core. Default: 0.
    """

def copy(
    artifact: PathLike, *, output: PathLike, run: RunOptions | None = None,
) -> dict[str, Any]:
    """Copy an artifact, checked, to or from a bucket, or between folders.

    Args:
        artifact: a folder, or a URL.
        output: a folder, or a URL; an artifact of the same kind there is replaced in one step.
        run: progress, verification.

    Returns:
        path, kind, digest, files and bytes.
    """

def diff(
    a: PathLike, b: PathLike, *, n: int = 20, k: int = 10, words: int = 20000, only: Iterable[str] = (),
    run: RunOptions | None = None,
) -> dict[str, Any]:
    """Compare the neighbours and the vectors of words in two words artifacts: of two texts, two years, two runs.

    Args:
        a: a words artifact.
        b: another, of the same unit and dimensions.
        n: so many words are given, those that shifted most; and so many new and gone ones, the commonest.
        k: neighbours of each word that are compared.
        words: so many of the commonest words of both are compared, and are neighbours: memory grows with this number, time
            with its square.
        only: give just these words, whether they shifted or not, and however rare they are.
        run: progress, verification.

    Returns:
        k: neighbours that were compared; fewer than asked for where there are no more words;
        compared, shared, only_in_a, only_in_b: numbers of words;
        alignment_cosine: the mean cosine of a word with itself;
        neighbours_kept: the mean share of neighbours;
        words: the most surprising first, each with word, count_a, count_b, moved (1 - cosine), kept (share of neighbours),
        surprise (see `words.diff.Shifts`), neighbours_a, neighbours_b;
        new, gone: the words of one table only, with count;
        unknown: each of `only` that is not compared → only_in ("a", "b" or None) and near (words spelled like it).
    """

def doctor(
    artifact: PathLike, *, data: PathLike | Iterable[Any] | None = None, sample: int = 10000,
    run: RunOptions | None = None,
) -> Evaluation:
    """Examine the vectors of an artifact, or a trained transformer.

    Args:
        artifact: sentences, words, or an index over either; or a model, also one with a head, also a folder of transformers.
        data: of a model: a corpus artifact or text to measure it on; None: what its manifest names.
        sample: vectors to sample; transforms are fitted on half of them and evaluated on the other half. Of a model: tokens.
        run: progress, verification.

    Returns:
        Of a model: path, kind, architecture, task (of a head), data, split, objective, counts, metrics (loss,
        unigram_entropy), layers (of each: stack, layer, moved: how far its matrices are from where training began,
        dead_units: share of its feed-forward), embedding_moved, start (fresh, a model, or "" where it is not known), findings
        (list of name, state, says, mend).

        Of vectors: path, kind, dim, counts, neighbours (K of hubness), transform (what the vectors went through already),
        spaces (transform → `Figures`), verdicts (transform → list of name, state, says), mend (transform and command; None
        for a space that needs none, and where only more training helps), worse (transform, dense and dense_after, the
        nDCG@10 of the vectors without and with it: what would mend the figures and finds less; else None), metrics (the
        figures as they are), and, of texts, finds: what `_finds` gives.
    """

def duplicates(
    artifact: PathLike, *, threshold: float = 0.95, n: int = 20, run: RunOptions | None = None,
) -> dict[str, Any]:
    """Groups of rows that are linked by cosines of at least the threshold; rows without a vector are in none.

    Up to 200,000 rows all pairs are compared; of more the index is searched for the 32 nearest of each row.

    Args:
        artifact: an index, or a sentences artifact.
        threshold: of the cosine.
        n: groups to tell of; all are counted.
        run: progress and verification.

    Returns:
        path, threshold, rows, pairs, groups (how many), rows_in_groups, largest (rows of the largest group), exact, and
        shown: the largest groups, each a list of rows as in a query's hits, with the cosine with the group's first row.
    """

def embed(
    encoder: PathLike, corpus: PathLike | Iterable[Any], *, output: PathLike, run: RunOptions | None = None,
    pooling: Literal['auto', 'mean', 'cls', 'max', 'first-last', 'weighted', 'sif'] = 'auto',
    unit: Literal['sentence', 'document', 'window'] = 'sentence', with_title: bool = True, window: int = 0,
    overlap: int = 16, transform: Literal['auto', 'none', 'centre', 'remove-components', 'whiten'] = 'auto',
    components: int = 1, dims: int = 0, sif_a: float = 0.0001, batch_tokens: int = 16384,
    device: Literal['auto', 'cpu', 'cuda', 'mps'] = 'auto', dtype: Literal['auto', 'float32', 'bfloat16'] = 'auto',
    threads: int = 0, update: bool = False,
) -> Made:
    """Turn the sentences, documents or windows of a corpus into unit vectors.

    Args:
        encoder: a model or words artifact.
        corpus: a corpus artifact, or whatever `ingest` takes, which is then ingested with the default settings.
        output: folder of the sentences artifact.
        run: progress, fresh start, verification.

    Settings, how texts become vectors:
        pooling: what makes one vector of many; mean, cls (the first token), max, first-last (mean of the first and the last layer) or weighted (by the weights that a contrastive model was trained with) of a model's; mean or sif (rare words weigh more) of word vectors; auto: what a model was trained with, else mean, and sif for words. Default: 'auto'.
        transform: what is done to every vector; nothing, the mean of all taken away, also the directions that all share, or every direction given the same weight; auto, for a model that no contrast has trained: whiten for as many texts as a vector has numbers, centre for 16 or more; else none. Default: 'auto'.
        components: directions that remove-components takes away (1 to 1024). Default: 1.
        dims: numbers per vector that whiten keeps, of the strongest directions, 0 = all. Default: 0.
        sif_a: sif: a word of share p in the text weighs a / (a + p) (> 0, at most 1). Default: 0.0001.

    Settings, what gets a vector:
        unit: what gets a vector: a sentence, a document, or as many sentences as fit a window. Default: 'sentence'.
        with_title: documents and windows are read with their title before the text. Default: True.
        window: tokens (or words) per window, 0 = as many as the model reads at once, 128 for word vectors. Default: 0.
        overlap: tokens that a window shares with the one before it; never more than half. Default: 16.

    Settings, where and how it runs:
        batch_tokens: tokens per batch, padding included. Default: 16384.
        device: where a model runs. Default: 'auto'.
        dtype: precision of a model's layers; auto: bfloat16 on CUDA, float32 elsewhere. On a CPU with AMX bfloat16 is two to four times as fast, and no number of a vector was more than 3e-4 off. Default: 'auto'.
        threads: threads on the CPU, 0 = one per core. Default: 0.
        update: take the vectors of texts that have not changed from the sentences at the output; what is embedded is what is new. Default: False.
    """

def evaluate_model(
    models: PathLike | Sequence[PathLike], data: PathLike | Iterable[PathLike], *, split: str | None = None,
    seq_len: int | None = None, device: Literal['auto', 'cpu', 'cuda', 'mps'] = 'auto', threads: int = 0,
    run: RunOptions | None = None,
) -> Evaluation:
    """Evaluate language models by the loss of a text.

    The text is tokenized by each model's own tokenizer and laid into sequences as in training: documents one after the
    other, with the ids around them that the model knows, cut every `seq_len` positions. A causal model has to expect every
    token and, where its documents have one, the end of each document; a masked model 15 % of the tokens, with the masks of
    the validation in training, which are the same in every call on the same kind of device. Everything is float32.

    Args:
        models: model artifacts, or folders of transformers.
        data: a corpus artifact, or sources of text, which are ingested with the default settings and left nowhere.
        split: train, valid, test or all; None: of an artifact what is held out (valid, else test, else all of it), of sources
            all.
        seq_len: positions of a sequence; None: the model's length, at most 2048.
        device: where the models run.
        threads: CPU threads, 0 = one per core.
        run: progress, verification.

    Returns:
        evaluated ("model"), data, split (None for all), metrics (of the first model), and models: a list of name,
        architecture, seq_len, parameters, vocab_size, metrics, nats (total surprise), counts, seen (see `Seen`), warnings.

        metrics: loss (nats per target), perplexity (per target), accuracy (share of targets given the highest probability),
        unknown_rate (share of tokens that stand for what the vocabulary cannot spell); of causal models also
        perplexity_per_word and bits_per_byte (of the text, so that models with different tokenizers compare), which are None
        for masked models. counts: sentences, bytes (of UTF-8, as the text came in), words (what the word pattern of the
        project finds; a run of a script without spaces is one word), unspaced_runs (such runs), documents (those that have a
        token), tokens, unknown_tokens, document_ends (targets that end a document), targets.
    """

def evaluate_predictions(
    models: PathLike | Sequence[PathLike], data: PathLike | Iterable[Any] | None = None, *,
    train: PathLike | Iterable[Any] | None = None, run: RunOptions | None = None, text_field: str = '',
    text_b: str = '', label_field: str = '', split: Literal['train', 'valid', 'test', 'all'] | None = None,
    device: Literal['auto', 'cpu', 'cuda', 'mps'] = 'auto', threads: int = 0, draws: int = 1000, seed: int = 1,
) -> Evaluation:
    """Evaluate models with heads by what they say of labelled texts, beside baselines that need no transformer.

    Args:
        models: artifacts of train classifier or tagger, or folders of transformers with such a class; or predictions
            artifacts, of a corpus with labels, in the place of all of these and of `data`.
        data: labelled texts: a corpus artifact, or files, or rows in memory. None with predictions.
        train: the labelled texts that the baselines learn from; None: what the first model says it learned from.
        run: progress, verification.

    Returns:
        evaluated ("predictions"), data, task ("single", "several", "score", "tags" or "answers"), measure (the main one),
        train, train_note (why there is none), split (None for all), settings, counts (texts, unlabelled, and with training
        texts train_texts and texts_in_train), metrics and systems.

        systems is a list of system ("model", "majority", "tfidf", "gazetteer", "sentence"), name, metrics, intervals (95 %,
        low and high), against (other system → measure → difference, interval and p), best_baseline (of a model: baseline,
        difference, p, and whether the model is significantly above it), by_label (label → precision, recall, f1, support;
        of tags those of spans), confusion (labels, and table: a row for each true label, of at most 30), confused (true,
        given, count and first, of the pairs that differ most often), unknown_labels (label → count and first: gold labels
        that a model does not know) and counts. Metrics are

        single: accuracy, macro_f1, micro_f1 (the same number), calibration_error;
        several: micro_f1, macro_f1, exact_match, calibration_error;
        score: pearson, spearman, rmse;
        tags: span_f1, span_precision, span_recall (conlleval's), accuracy (of tags), calibration_error (of spans);
        answers: exact_match and f1 of SQuAD, calibration_error; where some questions have no answer answered_f1 and
        unanswered_exact, of either part.

        metrics are those of the first system and, by the name of each system, those of its first.

    Settings, labelled texts of files:
        text_field: field that holds the text; without it text. Default: ''.
        text_b: field that holds the second text of a pair; without it text_b. Default: ''.
        label_field: field that holds what is right; without it label, of taggers tags, of readers spans. Default: ''.
        split: part of a corpus to evaluate on; without it test where it has one, else what the model has not learned from. Default: None.
        device: where the model runs; auto takes the fastest there is. Default: 'auto'.
        threads: CPU threads, 0 = one per core (0 to 1024). Default: 0.

    Settings, what is shown:
        draws: draws of the bootstrap, from which intervals and p come; 0 leaves them out. Default: 1000.
        seed: seed of the bootstrap. Default: 1.
    """

def evaluate_retrieval(
    encoders: PathLike | Sequence[PathLike], data: PathLike, *, split: str | None = None, words: PathLike | None = None,
    weight: float | None = None, drop_identical: bool = False, draws: int = 10000, feedback: int = 10,
    language: str = 'auto', run: RunOptions | None = None,
    pooling: Literal['auto', 'mean', 'cls', 'max', 'first-last', 'weighted', 'sif'] = 'auto',
    unit: Literal['sentence', 'document', 'window'] = 'sentence', with_title: bool = True, window: int = 0,
    overlap: int = 16, transform: Literal['auto', 'none', 'centre', 'remove-components', 'whiten'] = 'auto',
    components: int = 1, dims: int = 0, sif_a: float = 0.0001, batch_tokens: int = 16384,
    device: Literal['auto', 'cpu', 'cuda', 'mps'] = 'auto', dtype: Literal['auto', 'float32', 'bfloat16'] = 'auto',
    threads: int = 0, update: bool = False,
) -> Evaluation:
    """Evaluate encoders on a collection of documents, queries and judgements, beside BM25, RM3, TF-IDF and LSI.

    Every system searches for every query: bm25, rm3 (BM25 of expanded queries), tfidf, lsi, words_mean, and for each encoder
    dense (cosines, every document compared) and hybrid (bm25 and dense together, as `wordpipe query --mode hybrid` does).
    Two controls say what of hybrid's gain comes without its vectors: bm25_twice, the words alone with the same feedback (left
    out without feedback), and random, hybrid with the same share for vectors drawn by chance. The figures are trec_eval's (see
    `metrics/scores.py`); a query without an answer counts as 0.

    Args:
        encoders: model or words artifacts; or sentences or index artifacts, whose encoder is evaluated with the transform
            that it carries. None at all evaluates the baselines.
        data: a folder in the layout of BEIR: corpus.jsonl, queries.jsonl, qrels.tsv or qrels/SPLIT.tsv.
        split: which file in the folder qrels; None: test.
        words: a words artifact; the plain mean of its vectors is one more baseline. None: the first of the encoders
            that is one.
        weight: share of the dense score in hybrid; None: found without labels.
        drop_identical: leave out a document that has the same id as the query, as BEIR does with ArguAna.
        draws: of the bootstrap, from which intervals and p come; 0 leaves them out.
        feedback: hybrid search asks again with this many of its first hits; 0 does not.
        language: whose endings are cut off words (Snowball), none, or auto.
        run: progress, verification.
        settings: fields of `EmbedSettings` for model and words artifacts; a transform is fitted on the documents.

    Returns:
        evaluated ("retrieval"), data, counts, norms (weight, feedback, …), metrics and systems.

        systems is a list of system, name, metrics (ndcg_at_10, map, recall_at_100, mrr, from 0 to 1), intervals (95 %, low and
        high), unanswered (queries), against_bm25 (difference, interval and p of every measure), against_bm25_twice,
        against_rm3, against_lsi and facts (of hybrid the mean weight, agreement and feedback; of dense transform, whether the
        encoder learned_from_pairs, unknown words and documents without a vector).

        metrics are by the name of each system those of its first, and beside them those of the last of hybrid, dense, bm25
        that there is.

    Settings, how texts become vectors:
        pooling: what makes one vector of many; mean, cls (the first token), max, first-last (mean of the first and the last layer) or weighted (by the weights that a contrastive model was trained with) of a model's; mean or sif (rare words weigh more) of word vectors; auto: what a model was trained with, else mean, and sif for words. Default: 'auto'.
        transform: what is done to every vector; nothing, the mean of all taken away, also the directions that all share, or every direction given the same weight; auto, for a model that no contrast has trained: whiten for as many texts as a vector has numbers, centre for 16 or more; else none. Default: 'auto'.
        components: directions that remove-components takes away (1 to 1024). Default: 1.
        dims: numbers per vector that whiten keeps, of the strongest directions, 0 = all. Default: 0.
        sif_a: sif: a word of share p in the text weighs a / (a + p) (> 0, at most 1). Default: 0.0001.

    Settings, what gets a vector:
        unit: what gets a vector: a sentence, a document, or as many sentences as fit a window. Default: 'sentence'.
        with_title: documents and windows are read with their title before the text. Default: True.
        window: tokens (or words) per window, 0 = as many as the model reads at once, 128 for word vectors. Default: 0.
        overlap: tokens that a window shares with the one before it; never more than half. Default: 16.

    Settings, where and how it runs:
        batch_tokens: tokens per batch, padding included. Default: 16384.
        device: where a model runs. Default: 'auto'.
        dtype: precision of a model's layers; auto: bfloat16 on CUDA, float32 elsewhere. On a CPU with AMX bfloat16 is two to four times as fast, and no number of a vector was more than 3e-4 off. Default: 'auto'.
        threads: threads on the CPU, 0 = one per core. Default: 0.
        update: take the vectors of texts that have not changed from the sentences at the output; what is embedded is what is new. Default: False.
    """

def evaluate_search(
    index: PathLike, data: PathLike, *, draws: int = 10000, run: RunOptions | None = None,
) -> Evaluation:
    """Ask an index one's own questions, by words, by vectors, by both and by several weights, and compare what is found.

    Args:
        index: an index over texts, which is asked as it is.
        data: a file of questions and right answers: a question, a tab, and the id or the title of a record a line (an id goes
            before a title), several right answers being several lines; or a .jsonl, .csv or .tsv file with columns question
            and id or title.
        draws: of the bootstrap, from which intervals and p come; 0 leaves them out.
        run: progress, verification.

    Returns:
        evaluated ("search"), data, index, draws, auto (how --mode auto asks), counts (lines, questions, answers, unknown:
        lines whose id or title stands nowhere in the index, left_out: questions of such alone, repeated: lines), unknown_first
        (where and value), best (system, options, differs: whether it finds more than words alone beyond noise), metrics and
        systems.

        systems are words (BM25), vectors, both, words_twice (BM25 with feedback, without vectors), both_once (without
        feedback) and both_0.1 to both_0.9 (the weight of the vectors); each a list entry of system, options, metrics
        (ndcg_at_10, mrr, recall_at_10, from 0 to 1), intervals (95 %), unanswered and against_words (difference, interval and
        p of every measure).
    """

def evaluate_seq2seq(
    models: PathLike | Sequence[PathLike], data: PathLike | Iterable[Any], *,
    train: PathLike | Iterable[Any] | None = None, output: PathLike | None = None, run: RunOptions | None = None,
    text_field: str = '', text_b: list[str] | tuple[str, ...] = (),
    split: Literal['train', 'valid', 'test', 'all'] | None = None, prefix: str | None = None, prefix_field: str = '',
    beams: int = 5, length_penalty: float = 1.0, length_penalty_by: Literal['hf', 'gnmt'] = 'hf',
    max_tokens: int | None = None, min_tokens: int = 0, no_repeat_ngram: int = 0,
    device: Literal['auto', 'cpu', 'cuda', 'mps'] = 'auto', threads: int = 0, draws: int = 1000, seed: int = 1,
    samples: int = 0,
) -> Evaluation:
    """Evaluate encoder-decoders by the target texts that they write, beside baselines that need no training.

    Args:
        models: model artifacts, or folders of transformers. None at all evaluates the baselines.
        data: pairs: a corpus artifact with second texts; a tsv file of source, target and further references; records with
            the fields text and text_b (jsonl, csv, Parquet, a tsv file with a header); two or more files of plain text, line
            by line, the sources first; or rows in memory.
        train: the pairs of the training, of a corpus its split train: with them the target of the nearest source is a
            baseline.
        output: write what the model wrote to this file, .tsv or .parquet; of a single model.
        run: progress, verification.

    Returns:
        evaluated ("seq2seq"), data, train, split (None for all), settings, counts, signatures (of bleu, bleu_lc and chrf),
        metrics, systems and samples. Without sacrebleu there are no bleu, bleu_lc, chrf and length_ratio, and no signatures.

        systems is a list of system ("model", "copy", "first_sentence", "nearest"), name, prefix (before every source),
        metrics, intervals (95 %, low and high), against (of a model: baseline → measure → difference, interval and p),
        counts, and by_prefix (prefix → metrics, intervals, against, pairs; empty without `prefix_field`). Metrics: bleu
        (tokenizer 13a, cased), bleu_lc (lower-cased, split at white space), chrf (0 to 100); rouge_l, exact_match (after
        `normalise_answer`; 0 to 1), length_ratio (words of the outputs over words of the references, as BLEU counts them);
        and of models loss (nats per token of the first reference, its end included), perplexity, and unfinished (share of
        outputs that the model did not end). Counts: outputs_empty; of models sources_cut and tokens_cut (what the model did
        not read, because it is shorter), targets_cut (references that the loss is of a part of) and targets (tokens that the
        loss is of).

        samples is a list of source, prefix, references and outputs (one for each system that is a model).

        metrics are those of the first system and, by the name of each system, those of its first.

    Settings, pairs:
        text_field: field that holds the source text; without it text, or the first column of a tsv file without a header. Default: ''.
        text_b: field that holds the target text; without it text_b, or the second column; may be repeated: more references. Default: ().
        split: part of a corpus to evaluate on; without it what is held out: valid, else test, else all. Default: None.

    Settings, tasks:
        prefix: put before every source text; without it what the model was trained with. Default: None.
        prefix_field: field whose value is put before each source text, without it that of the training; figures for each of its values too. Default: ''.

    Settings, how target texts are found:
        beams: target texts that are followed at a time; 1 takes the most probable token each time (greedy) (1 to 1000). Default: 5.
        length_penalty: exponent of the length by which the score of a target text is divided; above 0 longer ones gain (-10 to 10). Default: 1.0.
        length_penalty_by: what the exponent is of: the tokens (transformers), or (5 + tokens) / 6 (GNMT). Default: 'hf'.
        max_tokens: tokens after which a target text is unfinished, where the model does not end it before; without it twice those of the source and 20, at most the model's positions. Default: None.
        min_tokens: tokens before a target text may end. Default: 0.
        no_repeat_ngram: no run of this many tokens comes twice, 0 = off (0 to 1000). Default: 0.
        device: where the model runs; auto takes the fastest there is. Default: 'auto'.
        threads: CPU threads, 0 = one per core (0 to 1024). Default: 0.

    Settings, what is shown:
        draws: draws of the bootstrap, from which intervals and p come; 0 leaves them out. Default: 1000.
        seed: seed of the bootstrap and of the choice of samples. Default: 1.
        samples: pairs to show with what was written, chosen by the seed (0 to 10000). Default: 0.
    """

def evaluate_sts(
    encoders: PathLike | Sequence[PathLike], data: PathLike | Iterable[PathLike], *, words: PathLike | None = None,
    floors: bool = True, language: str = 'auto', draws: int = 1000, run: RunOptions | None = None,
    pooling: Literal['auto', 'mean', 'cls', 'max', 'first-last', 'weighted', 'sif'] = 'auto',
    unit: Literal['sentence', 'document', 'window'] = 'sentence', with_title: bool = True, window: int = 0,
    overlap: int = 16, transform: Literal['auto', 'none', 'centre', 'remove-components', 'whiten'] = 'auto',
    components: int = 1, dims: int = 0, sif_a: float = 0.0001, batch_tokens: int = 16384,
    device: Literal['auto', 'cpu', 'cuda', 'mps'] = 'auto', dtype: Literal['auto', 'float32', 'bfloat16'] = 'auto',
    threads: int = 0, update: bool = False,
) -> Evaluation:
    """Evaluate encoders of texts on pairs of sentences that people have scored, beside baselines that need no training.

    Args:
        encoders: model or words artifacts; or sentences or index artifacts, whose encoder is evaluated with the transform
            that it carries. None at all evaluates the baselines.
        data: sets: files, or folders; the files of a folder are one set, whose pairs are
            ranked together, as SemEval's sets of one year are.
        words: a words artifact; the plain mean of its vectors is one more baseline. None: the first of the encoders that
            is one.
        floors: whether to evaluate TF-IDF, latent semantic indexing, the overlap of words and the mean of word vectors.
        language: whose endings the baselines cut off: a Snowball language, none, or auto.
        draws: of the bootstrap, from which the intervals come; 0 leaves them out.
        run: progress, verification.
        settings: fields of `EmbedSettings` for model and words artifacts (pooling, device, …). A `transform` other than
            none is fitted on the sentences of each set, without their scores; auto is none here.

    Returns:
        evaluated ("sts"), data, skipped (files of folders that were not taken, by ending), sets (name, path, pairs,
        unscored), metrics and systems.

        systems is a list of system ("dense", "words_mean", "tfidf", "lsi", "overlap"), name, metrics and sets. Metrics are
        from -1 to 1: spearman and pearson, the means over the sets, and "spearman/SET" and "pearson/SET"; None where there
        is no figure. A set has name, pairs, spearman, pearson, spearman_interval and pearson_interval (95 %, low and high),
        sentences_without_vector and unknown_words (count and the first).

        metrics are those of the first system and, by the name of each system, those of its first.

    Settings, how texts become vectors:
        pooling: what makes one vector of many; mean, cls (the first token), max, first-last (mean of the first and the last layer) or weighted (by the weights that a contrastive model was trained with) of a model's; mean or sif (rare words weigh more) of word vectors; auto: what a model was trained with, else mean, and sif for words. Default: 'auto'.
        transform: what is done to every vector; nothing, the mean of all taken away, also the directions that all share, or every direction given the same weight; auto, for a model that no contrast has trained: whiten for as many texts as a vector has numbers, centre for 16 or more; else none. Default: 'auto'.
        components: directions that remove-components takes away (1 to 1024). Default: 1.
        dims: numbers per vector that whiten keeps, of the strongest directions, 0 = all. Default: 0.
        sif_a: sif: a word of share p in the text weighs a / (a + p) (> 0, at most 1). Default: 0.0001.

    Settings, what gets a vector:
        unit: what gets a vector: a sentence, a document, or as many sentences as fit a window. Default: 'sentence'.
        with_title: documents and windows are read with their title before the text. Default: True.
        window: tokens (or words) per window, 0 = as many as the model reads at once, 128 for word vectors. Default: 0.
        overlap: tokens that a window shares with the one before it; never more than half. Default: 16.

    Settings, where and how it runs:
        batch_tokens: tokens per batch, padding included. Default: 16384.
        device: where a model runs. Default: 'auto'.
        dtype: precision of a model's layers; auto: bfloat16 on CUDA, float32 elsewhere. On a CPU with AMX bfloat16 is two to four times as fast, and no number of a vector was more than 3e-4 off. Default: 'auto'.
        threads: threads on the CPU, 0 = one per core. Default: 0.
        update: take the vectors of texts that have not changed from the sentences at the output; what is embedded is what is new. Default: False.
    """

def evaluate_tokenizer(
    tokens: PathLike | Sequence[PathLike], data: PathLike | Iterable[PathLike], *, by: str | None = None,
    split: str | None = None, run: RunOptions | None = None,
) -> Evaluation:
    """Evaluate tokenizers on a text.

    Args:
        tokens: tokens or model artifacts, or tokenizer files (whatever `tokenize --tokenizer` takes).
        data: a corpus artifact, or sources of text, which are ingested with the default settings and left nowhere.
        by: a column of the corpus (source, or a field of its records such as lang): figures for each of its values too.
        split: train, valid or test: evaluate this part of the corpus only.
        run: progress, verification.

    Returns:
        evaluated ("tokenizer"), data, split, by, metrics (of the first tokenizer; see `Figures`), and tokenizers: a list of
        name, made ("as it is"), vocab_size, metrics, counts, failures, never_used, groups.
    """

def evaluate_words(
    words: PathLike | Sequence[PathLike], data: PathLike | Iterable[PathLike], *, restrict_vocab: int = 30000,
    analogy: Literal['cosadd', 'cosmul'] = 'cosadd', unknown: Literal['drop', 'zero'] = 'drop',
    run: RunOptions | None = None,
) -> Evaluation:
    """Evaluate word vectors on word similarity and analogies.

    Args:
        words: words artifacts.
        data: sets of scored pairs (`word word score`) and of analogies (`: section`, then four words a line): files, or
            folders of .txt, .tsv and .csv files.
        restrict_vocab: ask and answer analogies with so many of the commonest words; 0 takes all.
        analogy: cosadd or cosmul.
        unknown: "drop" leaves out pairs and questions with an unknown word; "zero" gives such a pair the cosine 0 and counts
            such a question as wrong.
        run: progress, verification.

    Returns:
        evaluated ("words"), data, skipped (files of folders that were not taken, by ending), restrict_vocab, analogy, unknown,
        metrics (of the first table), and words: a list of name, distinct, dim, unit, metrics and sets.

        Metrics are from 0 to 1 (spearman from -1): spearman and accuracy, the means over the sets of each kind, and
        "spearman/SET" and "accuracy/SET"; None where there is no figure. A set has name, path, kind, unknown_words (count and
        the first) and, if its kind is "similarity", spearman, pairs and known; if it is "analogies", among (how many words
        could be answers), accuracy, correct, seen and asked, the same four for semantic and syntactic (None where sections
        are not so named), and for each of sections.
    """

def export(
    artifact: PathLike, form: str, output: PathLike, *, replace: bool = True,
) -> dict[str, Any]:
    """Write what an artifact holds in another program's format, whole or not at all.

    Args:
        artifact: words; sentences or an index, of which the vectors or the encoder are written; a model, of which the
            encoder or the tokenizer is; or tokens, of which the tokenizer is.
        form: word2vec-text, word2vec-binary, glove, numpy, npy or projector for words; npy, projector, word2vec-text or
            word2vec-binary for sentences; sentence-transformers for an encoder; tokenizer-json, vocab-txt, vocab-merges,
            transformers or tiktoken for a tokenizer.
        output: the file (or, for numpy, projector, an encoder, vocab-merges and transformers, the folder) to write; an older
            one is replaced in one step.
        replace: false refuses to replace anything.

    Returns:
        path and bytes; words and dim, vectors and dim, files and notes of an encoder, or tokens and notes (what the format
        leaves out).
    """

def fill(
    model: PathLike | OpenModel, text: str, *, verify: bool = True, top_k: int = 5,
    device: Literal['auto', 'cpu', 'cuda', 'mps'] = 'auto', threads: int = 0,
) -> Filled:
    """Fill the masked positions of a text with an encoder, or with a denoised encoder-decoder.

    Args:
        model: a model artifact, a folder of transformers, or one that `open_model` has opened.
        text: with the tokenizer's mask (most often [MASK]) wherever something is missing.
        verify: check the artifact's hashes first.

    Settings:
        top_k: candidates for each mask. Default: 5.
        device: where the model runs; auto takes the fastest there is. Default: 'auto'.
        threads: CPU threads, 0 = one per core (0 to 1024). Default: 0.
    """

def finish(
    trained: PathLike, *, cool_down: bool = False, run: RunOptions | None = None,
) -> Made:
    """Make the artifact of a stopped training, as far as it has come.

    The checkpoint stays: the command that began the training goes on from it, and replaces what was made here.

    Args:
        trained: what the training was to make, as its `output` named it.
        cool_down: train a tenth of the steps more, in which the learning rate falls to nothing; else the weights are those of
            the checkpoint.
        run: progress, verification.
    """

def generate(
    model: PathLike | OpenModel, prompt: str, *, verify: bool = True, max_tokens: int | None = None,
    min_tokens: int = 0, beams: int | None = None, n_best: int = 1, length_penalty: float = 1.0,
    length_penalty_by: Literal['hf', 'gnmt'] = 'hf', prefix: str | None = None, temperature: float | None = None,
    top_k: int = 0, top_p: float = 0.95, repetition_penalty: float = 1.0, no_repeat_ngram: int = 0,
    stop: list[str] | tuple[str, ...] = (), samples: int = 1, seed: int = 1,
    device: Literal['auto', 'cpu', 'cuda', 'mps'] = 'auto', threads: int = 0,
) -> list[Generated]:
    """Continue a text with a decoder; write the target text of a source text with an encoder-decoder.

    Many sources go through `TargetWriter(open_model(PATH), GenerateSettings(…)).stream(texts)`, with their scores.

    Args:
        model: a model artifact, a folder of transformers, or one that `open_model` has opened.
        prompt: the text's beginning, which may be empty; or the source.
        verify: check the artifact's hashes first.

    Returns:
        One continuation per sample; of a source the best targets, the best first, or one per sample.

    Settings:
        max_tokens: tokens after which a text ends, where the model does not end it before (default of a decoder: 100, of an encoder-decoder: twice those of the source and 20, at most the model's positions). Default: None.
        min_tokens: tokens before the model may end a text. Default: 0.
        beams: targets that an encoder-decoder follows side by side for a source, 1 = one token after the other (default: 5, with a temperature 1) (1 to 1000). Default: None.
        n_best: best targets of a source, as lines of its number, rank, score and text; parted by tabs, and of one the text alone; at most the beams (1 to 1000). Default: 1.
        length_penalty: exponent of a target's length, which its log-probability is divided by: higher ones favour long targets (-10 to 10). Default: 1.0.
        length_penalty_by: what has that exponent: hf = the length n (Hugging Face), gnmt = (5 + n) / 6 (Wu et al. 2016). Default: 'hf'.
        prefix: text put before every text, as "translate German to English: " (default: the one that the model was trained with). Default: None.
        temperature: logits are divided by it: below 1 the likely tokens gain, 0 = always the most probable one, greedy (default of a decoder: 0.8; an encoder-decoder searches with beams) (0 to 100). Default: None.
        top_k: sample from this many of the most probable tokens, 0 = all. Default: 0.
        top_p: sample from the fewest tokens that together have this probability, 1 = all (nucleus) (> 0, at most 1). Default: 0.95.
        repetition_penalty: logits of tokens that are in the text are divided by it (multiplied where negative), 1 = off (> 0, at most 100). Default: 1.0.
        no_repeat_ngram: no run of this many tokens comes twice, 0 = off (0 to 1000). Default: 0.
        stop: end the text before this string; may be repeated. Default: ().
        samples: texts to make of a prompt (1 to 10000). Default: 1.
        seed: seed of the sampling: the same seed gives the same text. Default: 1.
        device: where the model runs; auto takes the fastest there is. Default: 'auto'.
        threads: CPU threads, 0 = one per core (0 to 1024). Default: 0.
    """

def import_words(
    file: PathLike, *, output: PathLike, run: RunOptions | None = None,
    format: Literal['auto', 'word2vec-text', 'word2vec-binary', 'glove', 'numpy'] = 'auto', limit: int = 0,
    bad_bytes: Literal['fail', 'skip'] = 'fail', unit: Literal['word', 'token'] = 'word',
    tokenizer: PathLike | None = None, max_expand: int = 200,
) -> Made:
    """Make a words artifact of word vectors that another program trained.

    It is `wordpipe import`, a word that Python keeps for itself.

    Args:
        file: in word2vec's text or binary format (fastText's .vec too) or in GloVe's, also .gz, .bz2, .xz and .zst; or a
            folder with vectors.npy, words.txt and, maybe, counts.npy.
        output: folder of the words artifact.
        run: progress, fresh start, verification.

    Settings:
        format: how FILE is written; auto: recognised by what is in it. fastText's .vec is word2vec-text. Default: 'auto'.
        limit: take the first so many words of the file, 0 = all. Default: 0.
        bad_bytes: a word that is not UTF-8: stop there, or leave it out. Default: 'fail'.
        unit: what has a vector: words, or a tokenizer's tokens (to initialise a transformer). Default: 'word'.
        tokenizer: the tokenizer that cut the text: it cuts scripts without spaces when the vectors are used; needed for tokens. Default: None.
        max_expand: a compressed file may grow to at most this many times its size, beyond the first 64 MiB (at least 2). Default: 200.
    """

def index(
    vectors: PathLike, *, output: PathLike, run: RunOptions | None = None,
    language: Literal['auto', 'none', 'arabic', 'armenian', 'basque', 'catalan', 'danish', 'dutch', 'english', 'finnish', 'french', 'german', 'greek', 'hindi', 'hungarian', 'indonesian', 'irish', 'italian', 'lithuanian', 'nepali', 'norwegian', 'portuguese', 'romanian', 'russian', 'serbian', 'spanish', 'swedish', 'tamil', 'turkish', 'yiddish'] = 'auto',
    k1: float = 1.2, b: float = 0.75, type: Literal['auto', 'flat', 'hnsw', 'ivf-pq'] = 'auto', recall: float = 0.95,
    update: bool = False, max_memory: str = '', seed: int = 1, threads: int = 0, nlist: int = 0, nprobe: int = 0,
    refine: int = 0, pq_dims: int = 0, hnsw_m: int = 32, ef_construction: int = 100, ef_search: int = 0,
) -> Made:
    """Build a FAISS index over the vectors of a sentences or words artifact, or bring the one at the output up to date.

    The index artifact holds the rows in index order and the query encoder too, so the folder can be moved and queried.

    Args:
        vectors: a sentences or words artifact.
        output: folder of the index artifact.
        run: progress, fresh start, verification.

    Settings, lexical search:
        language: whose endings are cut off (Snowball) and small words left out; auto: the one that is recognised, or none. Default: 'auto'.
        k1: BM25: how soon a word that comes again in a text stops counting (0 to 10). Default: 1.2.
        b: BM25: how much a long text pays for its length; 0 = nothing (0 to 1). Default: 0.75.

    Settings, the index:
        type: the kind of index; flat: exact; ivf-pq: lists of codes, the best compared by their vectors; hnsw: a graph; auto: flat for few vectors, else ivf-pq where it finds enough. Default: 'auto'.
        recall: share of the true 10 nearest that must be found; search widens until held-out queries reach this share (> 0, at most 1). Default: 0.95.
        update: change the index that stands at the output by the rows that came, went or changed. Default: False.
        max_memory: refuse to build where the prediction is above this; nothing = no bound. Default: ''.
        seed: seed of graph levels, of k-means and of the held-out queries. Default: 1.
        threads: threads, 0 = one per core; a graph has the same bytes every time with one alone. Default: 0.

    Settings, lists (ivf-pq):
        nlist: lists; 0 = the square root of the number of vectors. Default: 0.
        nprobe: lists that a search looks at; 0 = as many as the recall needs. Default: 0.
        refine: candidates per answer of ivf-pq that are compared by their vectors; 0 = as the recall needs. Default: 0.
        pq_dims: numbers of a vector that share one 4-bit code of ivf-pq; 0 = 2, or 1 below 64 (0 to 64). Default: 0.

    Settings, graphs (hnsw):
        hnsw_m: neighbours per vector in an hnsw graph (2 to 256). Default: 32.
        ef_construction: candidates looked at when a vector enters an hnsw graph (1 to 10000). Default: 100.
        ef_search: candidates that a search of a graph looks at; 0 = as many as the recall needs. Default: 0.
    """

def ingest(
    sources: PathLike | Iterable[Any], *, output: PathLike, run: RunOptions | None = None, name: str = 'memory',
    documents: Literal['auto', 'file', 'block', 'line'] = 'auto', first_line_title: bool = False,
    newline: Literal['auto', 'paragraph', 'space'] = 'auto',
    format: Literal['auto', 'txt', 'md', 'html', 'rst', 'jsonl', 'csv', 'tsv', 'parquet', 'conll', 'squad', 'label-first'] = 'auto',
    text_field: str = 'text', title_field: str = 'title', id_field: str = 'auto',
    metadata: list[str] | tuple[str, ...] = (), no_metadata: bool = False,
    bad_records: Literal['fail', 'skip'] = 'fail', text_b: str = '', parallel: bool = False, label_field: str = '',
    tags_field: str = '', spans_field: str = '', bad_bytes: Literal['replace', 'skip', 'fail'] = 'replace',
    deduplicate: bool = True, valid: float = 0.01, test: float = 0.0, max_document_bytes: int = 16777216,
    max_sentence_chars: int = 2000, max_expand: int = 200, update: bool = False, drop_missing: bool = False,
) -> Made:
    """Read text into a corpus of documents and sentences.

        ingest("notes/", output="run/corpus")
        ingest([{"text": "Bees dance.", "year": 1927}], output="run/corpus")
        ingest(({"text": text} for text in texts), output="run/corpus")
        ingest(frame, text_field="body", id_field="key", output="run/corpus")
        ingest([{"text": "Ein Hund.", "text_b": "A dog."}], text_b="text_b", output="run/corpus")
        ingest(["train.de", "train.en"], parallel=True, output="run/corpus")

    Args:
        sources: files, folders, globs, "-" for standard input, or "python:PACKAGE"; or what a program has in memory: an
            iterable of dicts, a data frame (pandas, polars), an Arrow table or reader of batches. A string is always the name
            of a source: a text is given as {"text": …}.
        output: folder of the corpus artifact.
        run: progress, fresh start, verification.
        name: what the `source` of records from memory is; their `line` is the number of the record, from 1.

    Settings, documents:
        documents: what one document of text is: the file, a block between blank lines, or a line; auto is the file, and of .md, .html and .rst the section below a heading. Default: 'auto'.
        first_line_title: the first line of a file or block of plain text is its title, not part of its text. Default: False.
        newline: what a single newline is; auto decides for each document by whether its lines are wrapped at a width. Default: 'auto'.
        format: read every source as this, whatever its name and even if it looks binary. Default: 'auto'.

    Settings, records:
        text_field: field or column that holds the text; of CSV and TSV without a header its number, from 1. Default: 'text'.
        title_field: field or column that holds the title, where there is one. Default: 'title'.
        id_field: field that holds the record's own id; every hit shows it; auto: id or _id, where the first records have one; none: no ids. Default: 'auto'.
        metadata: carry only these fields (each NAME or NAME:TYPE with TYPE int, float, bool, str or date); without it all fields are carried. Default: ().
        no_metadata: carry no field beside text, title and id. Default: False.
        bad_records: stop at a record that cannot be read, or leave it out; records left out are counted, the first five named. Default: 'fail'.
        text_b: field that holds the second text of a pair; a pair is one row, and left out where either text is empty; of CSV and TSV without a header its number, from 1. Default: ''.
        parallel: pair the lines of two files; each line of the first SOURCE with the same line of the second. Default: False.
        label_field: field that holds what the record is labelled as: a string, a number or a list of strings. Default: ''.
        tags_field: field that holds a list of tags. Default: ''.
        spans_field: field that holds stretches of the text: a list of objects with start, end (in characters) and label. Default: ''.

    Settings, what is kept:
        bad_bytes: invalid UTF-8: put U+FFFD for it, drop the line, or stop. Default: 'replace'.
        deduplicate: keep only the first of documents with the same text; of records, of those equal in all fields. Default: True.
        valid: share of the documents kept for validation (< 1). Default: 0.01.
        test: share of the documents kept for tests (< 1). Default: 0.0.

    Settings, bounds:
        max_document_bytes: longer records are split at a space (at least 1024). Default: 16777216.
        max_sentence_chars: longer sentences are split at a space (at least 20). Default: 2000.
        max_expand: a compressed source may grow to at most this many times its size, beyond the first 64 MiB (at least 2). Default: 200.

    Settings, update:
        update: copy what comes from sources that have not changed from the corpus at the output; the others are read. Default: False.
        drop_missing: an update may leave out sources of the corpus that still exist; without this option it stops with their names. Default: False.
    """

def init(
    folder: PathLike = '.', *, source: PathLike | Sequence[PathLike] | None = None,
) -> Project:
    """Write the config and the Makefile of a new project into a folder; files that exist are left alone.

    Args:
        folder: made where it is not there.
        source: the texts: a file or folder of texts or records, or several; the fields of the first records are looked at.
            Without one the config reads the folder `texts`, which is made.
    """

def map(
    words: PathLike, output: PathLike, *, n_words: int | None = None, only: PathLike | None = None,
    near: str | None = None, layout: str = 'auto', groups: int = 10, replace: bool = True,
    run: RunOptions | None = None,
) -> dict[str, Any]:
    """Write a map of word vectors as one HTML page, whole or not at all.

    The same words, settings, versions and kind of machine give the same bytes.

    Args:
        words: a words artifact.
        output: the file to write; an older one is replaced in one step.
        n_words: show so many of the commonest words (with `near`: of the nearest), from 3 to 50,000. By default 5000, with
            `near` 500, with `only` all.
        only: a UTF-8 file of words, one per line: show no others.
        near: a word: show it and the words nearest to it.
        layout: umap, pca, or auto (umap where umap-learn is installed).
        groups: colours, from 1 to 12; a map of few words has fewer.
        replace: false refuses to replace anything.
        run: progress, verification.

    Returns:
        path, words, layout, neighbours_kept, bytes, and left_out: reason → words that were asked for and are not shown
        (unknown, repeated, beyond_the_limit, no_direction).
    """

@overload
def open(
    path: PathLike, kind: Literal['index'], *, verify: bool = True,
) -> OpenIndex: ...
@overload
def open(
    path: PathLike, kind: Literal['words'], *, verify: bool = True,
) -> OpenWords: ...
@overload
def open(
    path: PathLike, kind: Literal['model'], *, verify: bool = True,
) -> OpenEncoder: ...
@overload
def open(
    path: PathLike, kind: Literal['sentences'], *, verify: bool = True,
) -> OpenSentences: ...
@overload
def open(
    path: PathLike, kind: Literal['clusters'], *, verify: bool = True,
) -> OpenClusters: ...
@overload
def open(
    path: PathLike, kind: Literal['corpus', 'tokens'], *, verify: bool = True,
) -> OpenTable: ...
@overload
def open(
    path: PathLike,
    kind: Literal['corpus', 'tokens', 'words', 'model', 'sentences', 'index', 'clusters', 'predictions'] | tuple[Literal['corpus', 'tokens', 'words', 'model', 'sentences', 'index', 'clusters', 'predictions'], ...] | None = None,
    *, verify: bool = True,
) -> OpenArtifact:
    """Open an artifact: to query it, encode texts, look words up, read its rows. Use it as a context, or close it.

    All can be read with `batches`. An index answers `query`; it encodes texts with the encoder that it carries. Words answer
    `query` (`king - man + woman`) and `neighbours`; `words["bee"]` is a vector. Sentences and models `encode` texts. Clusters
    have `labels` and `members`.

    Args:
        path: the artifact's folder.
        kind: one or several: any other is refused. Where it is one, type checkers know what can be done with it.
        verify: check its hashes first.
    """

def open_model(
    path: PathLike, *, verify: bool = True,
) -> OpenModel:
    """Read a model and its tokenizer into memory, on the CPU.

    Args:
        path: a model artifact, or a folder of transformers with config.json, model.safetensors and a tokenizer.
        verify: check an artifact's hashes first.
    """

def open_predictor(
    path: PathLike, *, device: Literal['auto', 'cpu', 'cuda', 'mps'] = 'auto', verify: bool = True,
) -> Predictor:
    """Read a model with a head and its tokenizer into memory.

    Args:
        path: an artifact of train classifier, tagger or reader, or a folder of transformers with such a class.
        device: where to compute; a model of word vectors on the CPU alone.
        verify: check an artifact's hashes first.
    """

def plan(
    time: str | float, text: Any = None, *, command: str = 'train mlm', device: str = 'auto',
) -> dict[str, Any]:
    """Which preset to train in a time, and what comes of each, on this machine.

    Args:
        time: such as "30m", "1h30m" or "90s"; a number means minutes.
        text: a tokens or corpus artifact, or files of text; None: enough of it, with a vocabulary of 16,000.
        command: a training that has presets, as in "train mlm".
        device: auto, cpu or cuda; of a GPU that is not here, a stored figure says the pace.

    Returns:
        seconds, command, device, basis (where the pace comes from), recommended (a preset, or None: too little time for any),
        measured (of train mlm: the held-out loss that a preset had after so many tokens of Wikipedia, and that of knowing
        frequencies alone; else None), and presets: a list of preset, steps, batch_size, seq_len, tokens (positions read),
        passes (over the text; None: not known), tokens_per_s, parameters, memory_bytes, disk_bytes, and spread (likely factor
        of the pace to either side).
    """

def plot(
    trained: PathLike | Iterable[PathLike], output: PathLike | None = None, *, axis: str = 'tokens', log: bool = False,
    start: float = 0, replace: bool = True, run: RunOptions | None = None,
) -> dict[str, Any]:
    """Loss and learning rate of trainings, finished or not, as one picture; the same logs give the same bytes.

    Args:
        trained: model or words artifacts, or what they will be: of a training that still runs, or was stopped, what its last
            checkpoint knows is drawn. Where a new run is about to replace an artifact, both are.
        output: a .png or .svg file, which is written whole or not at all; None: nothing is drawn.
        axis: what the curves run along: tokens, steps or seconds.
        log: a logarithmic axis.
        start: draw nothing before this many tokens, steps or seconds, so that what comes after fills the picture.
        replace: false refuses to replace anything.
        run: progress, verification.

    Returns:
        path, bytes (None without an output), and runs: a list of name, kind, finished, steps, tokens, seconds, loss,
        valid_loss, unigram_entropy, and log: the rows of its log (step, tokens, split, loss, lr, seconds).
    """

def predict(
    model: PathLike | Predictor, text: str, second: str | None = None, *, verify: bool = True,
) -> Prediction:
    """What a model with a head says of a text, or of a pair of texts.

    Many texts go through `open_predictor(PATH).predict(texts)`.

    Args:
        model: an artifact of train classifier, tagger or reader, a folder of transformers, or what `open_predictor` opened.
        text: to be labelled; of a reader the passage.
        second: the second text of a pair; of a reader the question.
        verify: check the artifact's hashes first.
    """

def predict_corpus(
    model: PathLike, corpus: PathLike | Iterable[Any], *, output: PathLike, run: RunOptions | None = None,
    device: Literal['auto', 'cpu', 'cuda', 'mps'] = 'auto', threads: int = 0,
) -> Made:
    """What a model with a head says of every record of a corpus: an artifact with a row for each, in the corpus's order.

    A record is read whole, however many sentences it has. Where the corpus says what its records are (`ingest --label-field`,
    `--tags-field`, `--spans-field`), that stands beside: gold_label, gold_tags, gold_spans.

    Args:
        model: an artifact of train classifier or tagger, or a folder of transformers with such a class.
        corpus: a corpus artifact, or whatever `ingest` takes, which is then ingested with the default settings.
        output: folder of the predictions artifact.
        run: progress, fresh start, verification.

    Settings:
        device: where to compute; auto takes the fastest there is. Default: 'auto'.
        threads: CPU threads, 0 = one per core (0 to 1024). Default: 0.
    """

def progress(
    show: bool | None = None,
) -> None:
    """Choose whether calls from Python draw how far they are, on stderr.

    One call alone is kept silent, or reports elsewhere, by `run=wordpipe.RunOptions(report=...)`.

    Args:
        show: False never draws; True draws everywhere, a line every few seconds where there is no terminal; None, as at the
            beginning, draws on a terminal and in a notebook.
    """

def query(
    index: PathLike, text: str, k: int = 10, *, verify: bool = True,
    mode: Literal['auto', 'dense', 'lexical', 'hybrid'] = 'auto', weight: float | None = None,
    feedback: int | None = None, where: str | None = None, per_document: bool = False, min_score: float | None = None,
    explain: bool = False,
) -> list[dict[str, Any]]:
    """Ask an index, or a table of words, one question: open it, search, close it.

    For many questions `open` it once: what is read of an index stays in memory until it is closed.

    Args:
        index: an index or words artifact.
        text: the query; of words, a word or an expression such as `king - man + woman`; a blank one with `where` lists the
            first rows of which it is true.
        k: hits wanted.
        verify: check the artifact's hashes first.

    Returns:
        The best first, each a dict: rank, score, row, id (yours, where the records had one), title, text, source, line and
        metadata (the other fields of the record), or, of words, word and count. An empty list where nothing is found.

    Settings:
        mode: by vectors (dense), by words (lexical, BM25), or by both (hybrid); auto: what found best when the index was built. Default: 'auto'.
        weight: share of the vectors in a hybrid score; else the one that was measured, more for long queries (0 to 1). Default: None.
        feedback: ask again with the first N hits, in a hybrid search by vectors and by words, with mode lexical by words alone; 0 asks once; else 10, with mode lexical 0. Default: None.
        where: only rows of which this is true, over the columns that `wordpipe show INDEX` lists, such as year > 2000; of several conditions all are to be true. Default: None.
        per_document: of every document its best row alone. Default: False.
        min_score: leave out hits that score less: relative to the best hit in hybrid mode, a cosine by vectors (mode dense), BM25 by words. Default: None.
        explain: say which words carried each score; as JSON in full. Default: False.
    """

def report(
    folder: PathLike, output: PathLike, *, config: PathLike | None = None, replace: bool = True,
    run: RunOptions | None = None,
) -> dict[str, Any]:
    """Write a report on a pipeline as one HTML page, whole or not at all; the same artifacts give the same bytes.

    The page runs no script, fetches nothing and can be printed. What is damaged, or of another program, is named in it; the
    rest is reported all the same.

    Args:
        folder: that holds the artifacts of a pipeline, all of them or some; or one artifact. Files in it that hold what
            `evaluate --json` printed are shown as tables of quality.
        output: the file to write; an older one is replaced in one step.
        config: the file that describes the stages and so says which are stale. By default wordpipe.toml in the folder or
            the one above it, where there is one whose stages are made in this folder.
        replace: false refuses to replace anything.
        run: progress, verification.

    Returns:
        path, bytes, artifacts (how many), stale, damaged and missing (names), and notes: what could not be read.
    """

def run(
    config: PathLike = 'wordpipe.toml', *, first: str | None = None, last: str | None = None,
    run: RunOptions | None = None,
) -> list[Made]:
    """Make what is missing or stale in a pipeline, in order.

    Args:
        config: the file that describes the stages.
        first: begin with this stage (`--from`).
        last: end with this stage (`--to`).
        run: progress, making every stage anew (`fresh`), verification.

    Returns:
        What was made, in order; nothing where all was fresh.
    """

def serve(
    artifacts: PathLike | list[PathLike], *, verify: bool = True, report: Callable[[str], None] | None = None,
    log: Callable[[str], None] | None = None, host: str = '127.0.0.1', port: int = 8000,
    token_file: PathLike | None = None, allow_host: list[str] | tuple[str, ...] = (), open: bool = False,
    log_queries: bool = False, max_k: int = 1000, max_texts: int = 256, max_chars: int = 100000,
    max_body: int = 4194304, max_waiting: int = 64, max_connections: int = 256, timeout: float = 30.0,
    drain: float = 20.0,
) -> Server:
    """Answer queries over HTTP: a page, a JSON API, and what clients of OpenAI and of text-embeddings-inference ask.

    Indexes, words, sentences and models are opened once, each under the name of its folder (or NAME=PATH), and swapped whole
    when another generation is published at the path. It answers in a thread of its own until it is closed; `wait` keeps a
    program there until Ctrl-C. Needs the extra `wordpipe[serve]`.

    Args:
        artifacts: one or several: index, words, sentences, model.
        verify: check their hashes first.
        report: is called with a line when a new generation was taken or cannot be opened, and when a request failed by a bug.
        log: is called with a line, a JSON object, for each request.

    Settings:
        host: address to listen on; one that other machines reach needs token_file. Default: '127.0.0.1'.
        port: port to listen on; 0: any that is free (0 to 65535). Default: 8000.
        token_file: file that holds the token of those who may ask, as Authorization: Bearer TOKEN or as a password. Default: None.
        allow_host: another name of this server that browsers may use, as behind a proxy; may be repeated. Default: ().
        open: open the page in the browser. Default: False.
        log_queries: write what is asked into the log, too. Default: False.

    Settings, limits:
        max_k: hits of a query, at most. Default: 1000.
        max_texts: texts of a request, at most. Default: 256.
        max_chars: characters of a text or a query, at most. Default: 100000.
        max_body: bytes of a request's body, at most (at least 1024). Default: 4194304.
        max_waiting: requests at work or waiting; one more is answered 429 (1 to 10000). Default: 64.
        max_connections: connections; one more is answered 503 (1 to 60000). Default: 256.
        timeout: seconds that a request may take; then it is answered 503 (> 0, at most 3600). Default: 30.0.
        drain: seconds that requests at work have to end when the server stops (0 to 3600). Default: 20.0.
    """

def show(
    path: PathLike, *, rows: int = 0, params: bool = False,
) -> dict[str, Any]:
    """Look into an artifact: its manifest, its main table's columns, and the first rows of it as a query shows them.

    Args:
        path: an artifact.
        rows: so many rows; long vectors and lists are shortened.
        params: the parts of a model instead, which may be a folder of transformers.

    Returns:
        path, manifest, columns (name, as a condition has it, to type; none where the table is damaged) and rows; with
        `params` path, architecture, class, parameters (how many) and parts, each with the shapes of its weights. Of a
        training that was stopped, or goes on, the manifest is None, and `stopped` says where it stands.
    """

def status(
    config: PathLike = 'wordpipe.toml', *, first: str | None = None, last: str | None = None,
) -> list[StageStatus]:
    """Look which stages of a pipeline must be made, why, and what that would take; makes nothing.

    Args:
        config: the file that describes the stages.
        first: begin with this stage.
        last: end with this stage.

    Returns:
        Of every stage whether it is fresh, why not, and an estimate of time, memory and disk.
    """

def tokenize(
    corpus: PathLike | Iterable[Any], *, output: PathLike, run: RunOptions | None = None,
    algorithm: Literal['bpe', 'wordpiece', 'unigram', 'word', 'char'] = 'bpe', vocab_size: int = 16000,
    min_frequency: int = 2,
    pretokenizer: Literal['auto', 'gpt2', 'digits', 'marks', 'bert', 'whitespace', 'metaspace', 'characters'] = 'auto',
    normalization: Literal['none', 'nfc', 'nfkc'] = 'none', lowercase: bool = False, strip_accents: bool = False,
    sample: float = 1.0, vocabulary: Literal['joint', 'separate'] = 'joint', memory: str = '1GB',
    counts: PathLike | None = None, tokenizer: PathLike | None = None, keep_case: bool = False,
) -> Made:
    """Train a tokenizer on a corpus, encode the corpus and count its words.

    Args:
        corpus: a corpus artifact, or whatever `ingest` takes, which is then ingested with the default settings.
        output: folder of the tokens artifact.
        run: progress, fresh start, verification.

    Settings:
        algorithm: BPE, WordPiece as BERT has it, a unigram language model, whole words, or single characters. Default: 'bpe'.
        vocab_size: tokens in the vocabulary, special tokens included (at least 300). Default: 16000.
        min_frequency: a pair of tokens (or a word, or a character) seen less often gets no token of its own; not for unigram. Default: 2.

    Settings, where text is cut, and what is folded:
        pretokenizer: where text is cut before the algorithm sees it; gpt2, digits (at most three together) and marks (as digits, with vowel signs as letters) are byte-level; auto goes by the algorithm and the scripts: gpt2 or marks for bpe, bert or gpt2 for wordpiece, metaspace for unigram, whitespace for word, characters for char. Default: 'auto'.
        normalization: Unicode normal form of the text that is tokenized. Default: 'none'.
        lowercase: fold case before the tokenizer sees the text (the list of words is folded anyway). Default: False.
        strip_accents: take accents off letters before the text is tokenized. Default: False.

    Settings, what it is trained on:
        sample: share of the documents that the tokenizer is trained on (> 0, at most 1). Default: 1.0.
        vocabulary: of pairs: one tokenizer for both texts, or one for each side; the model is then of style vaswani. Default: 'joint'.
        memory: memory for counting and training: above it counts go to disk, and the rarest pre-tokens are left out of training. Default: '1GB'.
        counts: train from the pre-token counts of this artifact instead of counting again. Default: None.
        tokenizer: use this tokenizer instead of training one; a tokenizer.json, a transformers folder, or an artifact. Default: None.

    Settings, words:
        keep_case: count words as written, not in lower case. Default: False.
    """

def train_classifier(
    corpus: PathLike | Iterable[Any], *, output: Any, run: RunOptions | None = None, init: PathLike | None = None,
    epochs: float | None = None, minutes: float | None = None, lr: float | None = None, batch_size: int = 32,
    seeds: int = 1, freeze: int = 0, seed: int = 1, device: Literal['auto', 'cpu', 'cuda', 'mps'] = 'auto',
    held_out: float = 0.1, layer_decay: float = 0.8, warmup: float = 0.1, weight_decay: float = 0.01,
    dropout: float = 0.1, patience: int = 0, evaluations: int = 10, seq_len: int | None = None,
    dtype: Literal['auto', 'float32', 'bfloat16', 'float16'] = 'auto', threads: int = 0, checkpoint_seconds: float = 60,
    checkpoint_steps: int = 0, report_every: int = 10, problem: Literal['auto', 'single', 'several', 'score'] = 'auto',
    class_weights: Literal['none', 'balanced'] = 'none',
) -> Made:
    """Teach a trained transformer, or word vectors, to label texts, or pairs of texts.

    A run that was stopped is continued by the same call, exactly.

    Args:
        corpus: a corpus with labels (`ingest --label-field`), and with second texts where pairs are labelled.
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.

    Settings:
        init: what to start from: a model of train mlm or clm, or a folder of transformers; or, to be done in seconds, word vectors or a static encoder. Default: None.
        epochs: passes over the labelled texts, else 5, of a tagger 8, of a reader 3, and at least 200 steps; of word vectors 600 (> 0, at most 10000). Default: None.
        minutes: minutes that the training may take in all; as much is learned as fits, by a schedule that is planned from the measured pace; settings that say how much to learn are then the most (> 0). Default: None.
        lr: peak learning rate of the head, else 5e-4, of word vectors 0.01; the layers below have shares of it (> 0, at most 1). Default: None.
        batch_size: texts per step (1 to 65536). Default: 32.
        seeds: train so many models, of different seeds, and keep the one best on held-out text (1 to 100). Default: 1.
        freeze: leave so many layers as they are, counted from the embeddings (1: these alone) (0 to 257). Default: 0.
        seed: seed of the head, the order and dropout. Default: 1.
        device: where to train; auto takes the fastest there is. Default: 'auto'.

    Settings, learning:
        held_out: share of the texts held out, by a hash of the text, where the corpus holds out fewer: on them the best weights are found and probabilities calibrated (> 0, < 1). Default: 0.1.
        layer_decay: learning rate of a layer as a share of that of the layer above it (> 0, at most 1). Default: 0.8.
        warmup: steps in which the learning rate rises: a share of all below 1, a number of steps from 1 on. Default: 0.1.
        weight_decay: decoupled weight decay, on matrices only (0 to 10). Default: 0.01.
        dropout: share of each block's output, and of the head's input, zeroed (< 1). Default: 0.1.
        patience: stop when so many validations in a row are no better than the best one, 0 = go on to the end (0 to 1000). Default: 0.
        evaluations: validations over the run; the best weights of all are kept (1 to 1000). Default: 10.
        seq_len: tokens of a text that are read, special ones included, else as many as the model has (8 to 65536). Default: None.
        dtype: numbers in matrix products; auto: the fastest of the device. Default: 'auto'.
        threads: CPU threads, 0 = one per core, of word vectors one; another number gives slightly other weights (0 to 1024). Default: 0.
        checkpoint_seconds: seconds between checkpoints (> 0). Default: 60.
        checkpoint_steps: also a checkpoint every this many steps, 0 = by time only. Default: 0.
        report_every: steps between two rows of the log. Default: 10.
        problem: what a text has: a single label, several, or a score; auto: as the labels are (a list: several, numbers with a fraction: a score). Default: 'auto'.
        class_weights: balanced: each label counts as much as each other, however rare. Default: 'none'.
    """

def train_clm(
    tokens: PathLike, *, output: PathLike, run: RunOptions | None = None,
    preset: Literal['tiny', 'mini', 'small', 'base'] = 'mini', steps: int | None = None, epochs: float | None = None,
    minutes: float | None = None, style: Literal['modern', 'classic'] = 'modern', dim: int | None = None,
    n_layers: int | None = None, n_heads: int | None = None, n_kv_heads: int | None = None, ffn_dim: int | None = None,
    norm: Literal['layer', 'rms'] | None = None, norm_place: Literal['pre', 'post'] | None = None,
    feedforward: Literal['relu', 'gelu', 'gelu_tanh', 'silu', 'geglu', 'geglu_tanh', 'swiglu'] | None = None,
    tied: bool = True, dropout: float = 0.0, seq_len: int | None = None, batch_size: int | None = None,
    micro_batch: int = 0, optimiser: Literal['muon', 'adamw'] = 'muon', lr: float | None = None,
    min_lr_frac: float = 0.1, warmup: float = 0.2,
    schedule: Literal['cosine', 'linear', 'wsd', 'noam', 'constant'] = 'cosine', decay: float = 0.2,
    weight_decay: float = 0.05, beta1: float = 0.9, beta2: float = 0.98, momentum: float = 0.95, clip: float = 1.0,
    label_smoothing: float = 0.0, seed: int = 1, device: Literal['auto', 'cpu', 'cuda', 'mps'] = 'auto',
    dtype: Literal['auto', 'float32', 'bfloat16', 'float16'] = 'auto', threads: int = 0,
    compile: Literal['auto', 'on', 'off'] = 'auto', recompute: bool = False, deterministic: bool = False,
    checkpoint_seconds: float = 60, checkpoint_steps: int = 0, report_every: int = 10, eval_every: int = 0,
    valid_tokens: int = 32768, patience: int = 0, shared_layers: bool = False,
    positions: Literal['rope', 'learned', 'sinusoidal', 'alibi', 't5', 'none'] | None = None,
    attention: Literal['dot', 'additive', 'linear', 'performer', 'linformer', 'relative'] = 'dot', mixers: str = '',
    linformer_dim: int = 64, state_dim: int = 32, mem_len: int = 0, window: int = 0, global_every: int = 3,
    global_tokens: int = 0, embedding_dim: int = 0, keep_state: bool = True, init: PathLike | None = None,
    extend: PathLike | None = None, init_embeddings: PathLike | None = None,
) -> Made:
    """Train a causal transformer by next-token prediction; of pairs, it learns to go on from a first text with the second.

    A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact.
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.

    Settings:
        preset: size of the model, with a batch and a learning rate that suit it; with init only the batch and the length. Default: 'mini'.
        steps: optimiser steps. Default: None.
        epochs: passes over the training text, instead of steps; with neither: 3, and at least 200 steps (> 0). Default: None.
        minutes: minutes that the training may take in all; as much is learned as fits, by a schedule that is planned from the measured pace; settings that say how much to learn are then the most (> 0). Default: None.

    Settings, the model:
        style: parts of the model: modern as ModernBERT and Llama, classic as BERT and GPT-2. Default: 'modern'.
        dim: width of the model, else the preset's (2 to 16384). Default: None.
        n_layers: blocks, else the preset's (1 to 256). Default: None.
        n_heads: attention heads, else the preset's (1 to 256). Default: None.
        n_kv_heads: key and value heads, shared by the query heads (grouped-query attention), else one each (1 to 256). Default: None.
        ffn_dim: inner width of the feed-forward, else the preset's (1 to 65536). Default: None.
        norm: LayerNorm or RMSNorm, else the style's. Default: None.
        norm_place: norms before or after each half of a block, else the style's. Default: None.
        feedforward: activation of the feed-forward (geglu, swiglu: gated), else the style's. Default: None.
        tied: the output matrix is the embedding table. Default: True.
        dropout: share of each block's output zeroed in training (< 1). Default: 0.0.
        shared_layers: all layers have the weights of one, as in ALBERT. Default: False.
        positions: how positions are known, else the style's. Default: None.
        attention: how queries and keys are compared; all but dot have no class in transformers. Default: 'dot'.
        mixers: another mixer for each layer, as a pattern that is repeated over the layers: any attention, fourier, ssm (state spaces), such as ssm,ssm,dot. Default: ''.
        linformer_dim: with layers of linformer: keys that those of a sequence are brought down to (1 to 65536). Default: 64.
        state_dim: with layers of ssm: numbers of each channel's state, even (2 to 4096). Default: 32.
        mem_len: with layers of relative, of a decoder: a sequence is read in segments of so many positions, each of which sees itself and what is kept of the one before (Transformer-XL); 0 = all that came before (0 to 65536). Default: 0.
        window: how far a local layer sees to either side (a decoder: to the left), 0 = all layers see everything (0 to 65536). Default: 0.
        global_every: with a window: every this many layers one sees everything, the first included; 0 = none does (0 to 256). Default: 3.
        global_tokens: with a window: the first positions of a sequence see all and are seen by all (0 to 65536). Default: 0.
        embedding_dim: of an encoder: width of the embedding tables, from which a matrix leads to dim, as in ALBERT; 0 = dim (0 to 16384). Default: 0.

    Settings, the sequences:
        seq_len: positions of a sequence, special tokens included, else the preset's (8 to 65536). Default: None.
        batch_size: sequences per step, else the preset's. Default: None.
        micro_batch: sequences computed at once (gradients add up over the step), 0 = what the device takes. Default: 0.

    Settings, the optimiser:
        optimiser: muon for the matrices of the blocks, with AdamW for the rest; or AdamW for all. Default: 'muon'.
        lr: peak learning rate, else the preset's (> 0, at most 1000). Default: None.
        min_lr_frac: learning rate at the end, as a share of the peak (0 to 1). Default: 0.1.
        warmup: steps in which the learning rate rises: a share of all below 1, a number of steps from 1 on. Default: 0.2.
        schedule: after the warm-up: fall along a cosine or a line, stay and fall at the end (wsd: warm-up-stable-decay), fall with one over the root of the step (noam), or stay. Default: 'cosine'.
        decay: share of the steps in which a wsd schedule falls (> 0, at most 1). Default: 0.2.
        weight_decay: decoupled weight decay, on matrices only (0 to 10). Default: 0.05.
        beta1: AdamW's memory of gradients (< 1). Default: 0.9.
        beta2: AdamW's memory of squared gradients (< 1). Default: 0.98.
        momentum: Muon's memory of gradients (< 1). Default: 0.95.
        clip: largest norm of a step's gradient, 0 = no limit. Default: 1.0.
        label_smoothing: share of the target spread over all tokens (< 1). Default: 0.0.

    Settings, where and how it runs:
        seed: seed of weights, order, masks and dropout. Default: 1.
        device: where to train; auto takes the fastest there is. Default: 'auto'.
        dtype: numbers in matrix products (weights, norms and losses stay float32); auto: bfloat16 where the device has units for it (CUDA, CPUs with AMX or AVX512-BF16), float16 on older GPUs, float32 elsewhere. Default: 'auto'.
        threads: CPU threads, 0 = one per core; another number gives slightly other weights (0 to 1024). Default: 0.
        compile: torch.compile: worth its first minute on CUDA (auto). Default: 'auto'.
        recompute: gradient checkpointing: keep only each block's input and compute the rest again; slower, far less memory. Default: False.
        deterministic: same bytes from every run on a GPU too, slower; a CPU always gives them. Default: False.
        checkpoint_seconds: seconds between checkpoints (> 0). Default: 60.
        checkpoint_steps: also a checkpoint every this many steps, 0 = by time only. Default: 0.
        report_every: steps between two rows of the log; the screen is refreshed every few seconds. Default: 10.
        eval_every: steps between validations, 0 = five over the run. Default: 0.
        valid_tokens: held-out positions looked at in each validation. Default: 32768.
        patience: warn when the loss has not fallen below the unigram entropy after this many steps, 0 = half of all. Default: 0.
        keep_state: keep the optimiser's state in the model's folder, once or twice as large as the weights, so that extend can go on. Default: True.

    Settings, what it starts from:
        init: start from the weights of this model: an artifact, or a folder of transformers with the same tokenizer. Default: None.
        extend: go on where this finished model stopped, with its optimiser and its order of the text, to more steps. Default: None.
        init_embeddings: start from the vectors of this words artifact, trained with unit token. Default: None.
    """

def train_contrastive(
    tokens: PathLike, *, output: PathLike, run: RunOptions | None = None,
    goal: Literal['similarity', 'search'] = 'similarity', steps: int | None = None, epochs: float | None = None,
    minutes: float | None = None, batch_size: int | None = None, pairs: PathLike | None = None,
    pair_neighbour: float | None = None, pair_crop: float | None = None, pair_title: float | None = None,
    pair_deletion: float | None = None, pair_file: float | None = None, deletion_rate: float = 0.2,
    max_words: int = 256, temperature: float = 0.05, false_negatives: Literal['keep', 'drop'] = 'drop',
    max_similarity: float = 1.0, init: PathLike | None = None, init_embeddings: PathLike | None = None,
    preset: Literal['tiny', 'mini', 'small', 'base'] = 'mini', dim: int | None = None, n_layers: int | None = None,
    dropout: float = 0.1, pooling: Literal['mean', 'weighted'] | None = None, sif_a: float = 0.001, longest: int = 0,
    teacher: PathLike | None = None, teacher_weight: float = 1.0, teacher_temperature: float = 0.05, lr: float = 0.0003,
    min_lr_frac: float = 0.1, warmup: float = 0.1,
    schedule: Literal['cosine', 'linear', 'wsd', 'noam', 'constant'] = 'cosine', decay: float = 0.2, beta1: float = 0.9,
    beta2: float = 0.999, seed: int = 1, threads: int = 0, checkpoint_seconds: float = 60, checkpoint_steps: int = 0,
    report_every: int = 10, eval_every: int = 0, valid_pairs: int = 1000, pair_dropout: float | None = None,
    weight_decay: float = 0.01, clip: float = 1.0, device: Literal['auto', 'cpu', 'cuda', 'mps'] = 'auto',
    dtype: Literal['auto', 'float32', 'bfloat16'] = 'auto',
) -> Made:
    """Train a transformer that encodes texts, without labels: what belongs together comes near, others are kept apart.

    A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact.
        output: folder of the model artifact, which sentence-transformers loads as it is.
        run: progress, fresh start, verification.

    Settings:
        goal: similarity: texts that say the same are near; search: a question is near the text that answers it. Default: 'similarity'.
        steps: optimiser steps. Default: None.
        epochs: passes over the sentences, instead of steps; with neither: 1, and at least 200 steps (> 0). Default: None.
        minutes: minutes that the training may take in all; as much is learned as fits, by a schedule that is planned from the measured pace; settings that say how much to learn are then the most (> 0). Default: None.
        batch_size: pairs per step, each the negative of all others; else 1024 of train static, 128 of train contrastive, or one for each sentence where there are fewer (2 to 65536). Default: None.

    Settings, the pairs (shares; with none given they follow the goal):
        pairs: pairs of your own: a Parquet or JSON Lines file, of which the first two text columns are read. Default: None.
        pair_neighbour: share: a sentence and the next one of its document (0 to 1). Default: None.
        pair_crop: share: two random spans of one document (0 to 1). Default: None.
        pair_title: share: a document's title and a span of it (0 to 1). Default: None.
        pair_deletion: share: one sentence twice, other words left out of each (0 to 1). Default: None.
        pair_file: share: from the file of pairs; else half where one is given (0 to 1). Default: None.
        deletion_rate: words left out of deletion pairs and of crops (0 to 0.9). Default: 0.2.
        max_words: words (or tokens) of a text that are read; longer ones are cut, and counted (at least 8). Default: 256.

    Settings, the loss:
        temperature: temperature of the softmax over the batch: lower looks harder at near misses (> 0, at most 10). Default: 0.05.
        false_negatives: texts of the same document, or the same text again, as negatives of each other. Default: 'drop'.
        max_similarity: negatives with a cosine above this are left out as likely to mean the same; 1 = none (> 0, at most 1). Default: 1.0.

    Settings, the transformer, and what it starts from:
        init: start from the weights of this model: of `train mlm`, or an earlier `train contrastive`. Default: None.
        init_embeddings: without init: begin as the mean of these vectors, of words or a static encoder trained with unit token; context is learned on top. Default: None.
        preset: without init: its size. Default: 'mini'.
        dim: without init: its width, else that of the vectors it begins with (multiples of 64), else the preset's (2 to 16384). Default: None.
        n_layers: without init: its blocks, else the preset's (1 to 256). Default: None.
        dropout: share of each block's output zeroed in training (< 1). Default: 0.1.
        pooling: mean of its tokens, or a mean in which a token of share p of this text weighs sif_a / (sif_a + p); else as the model of init does, with its weights, and weighted where there is none. Default: None.
        sif_a: in a weighted mean a token of share p in the text weighs a / (a + p) (> 0, at most 1). Default: 0.001.
        longest: positions of a sequence, special tokens included, 0 = the model's (0 to 65536). Default: 0.
        teacher: also learn how alike this encoder finds the texts of a batch. Default: None.
        teacher_weight: weight of the teacher's loss beside the contrast (> 0, at most 1000). Default: 1.0.
        teacher_temperature: temperature of the teacher's softmax (> 0, at most 10). Default: 0.05.

    Settings, the optimiser:
        lr: peak learning rate (> 0, at most 1000). Default: 0.0003.
        min_lr_frac: learning rate at the end, as a share of the peak (0 to 1). Default: 0.1.
        warmup: steps in which the learning rate rises: a share below 1, a number of steps from 1 on. Default: 0.1.
        schedule: how the learning rate falls after the warm-up. Default: 'cosine'.
        decay: share of the steps in which a wsd schedule falls (> 0, at most 1). Default: 0.2.
        beta1: Adam's memory of gradients (< 1). Default: 0.9.
        beta2: Adam's memory of squared gradients (< 1). Default: 0.999.

    Settings, where and how it runs:
        seed: seed of pairs, order, deletion and first weights. Default: 1.
        threads: CPU threads, 0 = one per core; another number gives slightly other weights (0 to 1024). Default: 0.
        checkpoint_seconds: seconds between checkpoints (> 0). Default: 60.
        checkpoint_steps: also a checkpoint every this many steps, 0 = by time only. Default: 0.
        report_every: steps between two rows of the log. Default: 10.
        eval_every: steps between validations, 0 = five over the run. Default: 0.
        valid_pairs: held-out pairs among which partners are looked for (at least 2). Default: 1000.
        pair_dropout: share of pairs that are one sentence twice, told apart by the model's dropout alone (0 to 1). Default: None.
        weight_decay: decoupled weight decay, on matrices only (0 to 10). Default: 0.01.
        clip: largest norm of a step's gradient, 0 = no limit. Default: 1.0.
        device: where to train. Default: 'auto'.
        dtype: numbers in matrix products; auto: bfloat16 where the device has units for it, else float32. Default: 'auto'.
    """

def train_denoising(
    tokens: PathLike, *, output: PathLike, run: RunOptions | None = None,
    preset: Literal['tiny', 'mini', 'small', 'base'] = 'mini', steps: int | None = None, epochs: float | None = None,
    minutes: float | None = None, style: Literal['t5', 'bart'] = 't5', dim: int | None = None,
    n_layers: int | None = None, n_heads: int | None = None, n_kv_heads: int | None = None, ffn_dim: int | None = None,
    norm: Literal['layer', 'rms'] | None = None, norm_place: Literal['pre', 'post'] | None = None,
    feedforward: Literal['relu', 'gelu', 'gelu_tanh', 'silu', 'geglu', 'geglu_tanh', 'swiglu'] | None = None,
    tied: bool = True, dropout: float = 0.1, seq_len: int | None = None, batch_size: int | None = None,
    micro_batch: int = 0, optimiser: Literal['muon', 'adamw'] = 'muon', lr: float | None = None,
    min_lr_frac: float = 0.1, warmup: float = 0.2,
    schedule: Literal['cosine', 'linear', 'wsd', 'noam', 'constant'] = 'cosine', decay: float = 0.2,
    weight_decay: float = 0.05, beta1: float = 0.9, beta2: float = 0.98, momentum: float = 0.95, clip: float = 1.0,
    label_smoothing: float = 0.0, seed: int = 1, device: Literal['auto', 'cpu', 'cuda', 'mps'] = 'auto',
    dtype: Literal['auto', 'float32', 'bfloat16', 'float16'] = 'auto', threads: int = 0,
    compile: Literal['auto', 'on', 'off'] = 'auto', recompute: bool = False, deterministic: bool = False,
    checkpoint_seconds: float = 60, checkpoint_steps: int = 0, report_every: int = 10, eval_every: int = 0,
    valid_tokens: int = 32768, patience: int = 0,
    positions: Literal['rope', 'learned', 'sinusoidal', 'alibi', 't5', 'none'] | None = None, keep_state: bool = True,
    init: PathLike | None = None, extend: PathLike | None = None, n_decoder_layers: int | None = None,
    average: float = 0.1, noise: float | None = None, mean_span: float | None = None,
) -> Made:
    """Train an encoder-decoder without pairs: it restores texts that were damaged.

    The model is a start for `train_seq2seq`, and fills gaps. A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact.
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.

    Settings:
        preset: size of the model, with a batch and a learning rate that suit it; with init only the batch and the length. Default: 'mini'.
        steps: optimiser steps. Default: None.
        epochs: passes over the training text, instead of steps; with neither: 3, and at least 200 steps (> 0). Default: None.
        minutes: minutes that the training may take in all; as much is learned as fits, by a schedule that is planned from the measured pace; settings that say how much to learn are then the most (> 0). Default: None.

    Settings, the model:
        style: what is damaged, and the model: t5 (spans are written), bart (the whole text is). Default: 't5'.
        dim: width of the model, else the preset's (2 to 16384). Default: None.
        n_layers: blocks, else the preset's (1 to 256). Default: None.
        n_heads: attention heads, else the preset's (1 to 256). Default: None.
        n_kv_heads: key and value heads, shared by the query heads (grouped-query attention), else one each (1 to 256). Default: None.
        ffn_dim: inner width of the feed-forward, else the preset's (1 to 65536). Default: None.
        norm: LayerNorm or RMSNorm, else the style's. Default: None.
        norm_place: norms before or after each half of a block, else the style's. Default: None.
        feedforward: activation of the feed-forward (geglu, swiglu: gated), else the style's. Default: None.
        tied: the output matrix is the embedding table. Default: True.
        dropout: share of each block's output zeroed in training (< 1). Default: 0.1.
        positions: how positions are known, else the style's. Default: None.
        n_decoder_layers: blocks of the decoder, else as many as of the encoder (1 to 256). Default: None.

    Settings, the sequences:
        seq_len: positions of a sequence, special tokens included, else the preset's (8 to 65536). Default: None.
        batch_size: sequences per step, else the preset's. Default: None.
        micro_batch: sequences computed at once (gradients add up over the step), 0 = what the device takes. Default: 0.

    Settings, the optimiser:
        optimiser: muon for the matrices of the blocks, with AdamW for the rest; or AdamW for all. Default: 'muon'.
        lr: peak learning rate, else the preset's (> 0, at most 1000). Default: None.
        min_lr_frac: learning rate at the end, as a share of the peak (0 to 1). Default: 0.1.
        warmup: steps in which the learning rate rises: a share of all below 1, a number of steps from 1 on. Default: 0.2.
        schedule: after the warm-up: fall along a cosine or a line, stay and fall at the end (wsd: warm-up-stable-decay), fall with one over the root of the step (noam), or stay. Default: 'cosine'.
        decay: share of the steps in which a wsd schedule falls (> 0, at most 1). Default: 0.2.
        weight_decay: decoupled weight decay, on matrices only (0 to 10). Default: 0.05.
        beta1: AdamW's memory of gradients (< 1). Default: 0.9.
        beta2: AdamW's memory of squared gradients (< 1). Default: 0.98.
        momentum: Muon's memory of gradients (< 1). Default: 0.95.
        clip: largest norm of a step's gradient, 0 = no limit. Default: 1.0.
        label_smoothing: share of the target spread over all tokens (< 1). Default: 0.0.
        average: the weights are the mean of about ten sets, evenly spread over this share of the steps at the end; 0 = the last ones (0 to 1). Default: 0.1.

    Settings, where and how it runs:
        seed: seed of weights, order, noise and dropout. Default: 1.
        device: where to train; auto takes the fastest there is. Default: 'auto'.
        dtype: numbers in matrix products (weights, norms and losses stay float32); auto: bfloat16 where the device has units for it (CUDA, CPUs with AMX or AVX512-BF16), float16 on older GPUs, float32 elsewhere. Default: 'auto'.
        threads: CPU threads, 0 = one per core; another number gives slightly other weights (0 to 1024). Default: 0.
        compile: torch.compile: worth its first minute on CUDA (auto). Default: 'auto'.
        recompute: gradient checkpointing: keep only each block's input and compute the rest again; slower, far less memory. Default: False.
        deterministic: same bytes from every run on a GPU too, slower; a CPU always gives them. Default: False.
        checkpoint_seconds: seconds between checkpoints (> 0). Default: 60.
        checkpoint_steps: also a checkpoint every this many steps, 0 = by time only. Default: 0.
        report_every: steps between two rows of the log; the screen is refreshed every few seconds. Default: 10.
        eval_every: steps between validations, 0 = five over the run. Default: 0.
        valid_tokens: held-out positions looked at in each validation. Default: 32768.
        patience: warn when the loss has not fallen below the unigram entropy after this many steps, 0 = half of all. Default: 0.
        keep_state: keep the optimiser's state in the model's folder, once or twice as large as the weights, so that extend can go on. Default: True.

    Settings, what it starts from:
        init: start from the weights of this model: an artifact, or a folder of transformers with the same tokenizer. Default: None.
        extend: go on where this finished model stopped, with its optimiser and its order of the text, to more steps. Default: None.

    Settings, what is damaged:
        noise: share of the tokens that is taken out; else 0.15 for t5 and 0.3 for bart (> 0, < 1). Default: None.
        mean_span: tokens of a span on average; else 3 for t5 and 3.5 for bart (1 to 100). Default: None.
    """

def train_electra(
    tokens: PathLike, *, output: PathLike, run: RunOptions | None = None,
    preset: Literal['tiny', 'mini', 'small', 'base'] = 'mini', steps: int | None = None, epochs: float | None = None,
    minutes: float | None = None, style: Literal['modern', 'classic'] = 'classic', dim: int | None = None,
    n_layers: int | None = None, n_heads: int | None = None, n_kv_heads: int | None = None, ffn_dim: int | None = None,
    norm: Literal['layer', 'rms'] | None = None, norm_place: Literal['pre', 'post'] | None = None,
    feedforward: Literal['relu', 'gelu', 'gelu_tanh', 'silu', 'geglu', 'geglu_tanh', 'swiglu'] | None = None,
    tied: bool = True, dropout: float = 0.0, seq_len: int | None = None, batch_size: int | None = None,
    micro_batch: int = 0, optimiser: Literal['muon', 'adamw'] = 'muon', lr: float | None = None,
    min_lr_frac: float = 0.1, warmup: float = 0.2,
    schedule: Literal['cosine', 'linear', 'wsd', 'noam', 'constant'] = 'cosine', decay: float = 0.2,
    weight_decay: float = 0.05, beta1: float = 0.9, beta2: float = 0.98, momentum: float = 0.95, clip: float = 1.0,
    label_smoothing: float = 0.0, seed: int = 1, device: Literal['auto', 'cpu', 'cuda', 'mps'] = 'auto',
    dtype: Literal['auto', 'float32', 'bfloat16', 'float16'] = 'auto', threads: int = 0,
    compile: Literal['auto', 'on', 'off'] = 'auto', recompute: bool = False, deterministic: bool = False,
    checkpoint_seconds: float = 60, checkpoint_steps: int = 0, report_every: int = 10, eval_every: int = 0,
    valid_tokens: int = 32768, patience: int = 0, shared_layers: bool = False,
    positions: Literal['rope', 'learned', 'sinusoidal', 'alibi', 't5', 'none'] | None = None,
    attention: Literal['dot', 'additive', 'linear', 'performer', 'linformer', 'relative'] = 'dot', mixers: str = '',
    linformer_dim: int = 64, state_dim: int = 32, mem_len: int = 0, window: int = 0, global_every: int = 3,
    global_tokens: int = 0, embedding_dim: int = 0, init_embeddings: PathLike | None = None, mask_rate: float = 0.15,
    mask_unit: Literal['token', 'word', 'span'] = 'token', mask_share: float = 1.0, random_share: float | None = None,
    generator_size: float = 0.25,
) -> Made:
    """Train a bidirectional transformer to find tokens that a small masked model has put in (ELECTRA).

    A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact.
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.

    Settings:
        preset: size of the model, with a batch and a learning rate that suit it; with init only the batch and the length. Default: 'mini'.
        steps: optimiser steps. Default: None.
        epochs: passes over the training text, instead of steps; with neither: 3, and at least 200 steps (> 0). Default: None.
        minutes: minutes that the training may take in all; as much is learned as fits, by a schedule that is planned from the measured pace; settings that say how much to learn are then the most (> 0). Default: None.

    Settings, the model:
        style: parts of the model: classic as BERT, for a folder of ELECTRA; modern as ModernBERT, in our own format. Default: 'classic'.
        dim: width of the model, else the preset's (2 to 16384). Default: None.
        n_layers: blocks, else the preset's (1 to 256). Default: None.
        n_heads: attention heads, else the preset's (1 to 256). Default: None.
        n_kv_heads: key and value heads, shared by the query heads (grouped-query attention), else one each (1 to 256). Default: None.
        ffn_dim: inner width of the feed-forward, else the preset's (1 to 65536). Default: None.
        norm: LayerNorm or RMSNorm, else the style's. Default: None.
        norm_place: norms before or after each half of a block, else the style's. Default: None.
        feedforward: activation of the feed-forward (geglu, swiglu: gated), else the style's. Default: None.
        tied: the output matrix is the embedding table. Default: True.
        dropout: share of each block's output zeroed in training (< 1). Default: 0.0.
        shared_layers: all layers have the weights of one, as in ALBERT. Default: False.
        positions: how positions are known, else the style's. Default: None.
        attention: how queries and keys are compared; all but dot have no class in transformers. Default: 'dot'.
        mixers: another mixer for each layer, as a pattern that is repeated over the layers: any attention, fourier, ssm (state spaces), such as ssm,ssm,dot. Default: ''.
        linformer_dim: with layers of linformer: keys that those of a sequence are brought down to (1 to 65536). Default: 64.
        state_dim: with layers of ssm: numbers of each channel's state, even (2 to 4096). Default: 32.
        mem_len: with layers of relative, of a decoder: a sequence is read in segments of so many positions, each of which sees itself and what is kept of the one before (Transformer-XL); 0 = all that came before (0 to 65536). Default: 0.
        window: how far a local layer sees to either side (a decoder: to the left), 0 = all layers see everything (0 to 65536). Default: 0.
        global_every: with a window: every this many layers one sees everything, the first included; 0 = none does (0 to 256). Default: 3.
        global_tokens: with a window: the first positions of a sequence see all and are seen by all (0 to 65536). Default: 0.
        embedding_dim: of an encoder: width of the embedding tables, from which a matrix leads to dim, as in ALBERT; 0 = dim (0 to 16384). Default: 0.

    Settings, the sequences:
        seq_len: positions of a sequence, special tokens included, else the preset's (8 to 65536). Default: None.
        batch_size: sequences per step, else the preset's. Default: None.
        micro_batch: sequences computed at once (gradients add up over the step), 0 = what the device takes. Default: 0.

    Settings, the optimiser:
        optimiser: muon for the matrices of the blocks, with AdamW for the rest; or AdamW for all. Default: 'muon'.
        lr: peak learning rate, else the preset's (> 0, at most 1000). Default: None.
        min_lr_frac: learning rate at the end, as a share of the peak (0 to 1). Default: 0.1.
        warmup: steps in which the learning rate rises: a share of all below 1, a number of steps from 1 on. Default: 0.2.
        schedule: after the warm-up: fall along a cosine or a line, stay and fall at the end (wsd: warm-up-stable-decay), fall with one over the root of the step (noam), or stay. Default: 'cosine'.
        decay: share of the steps in which a wsd schedule falls (> 0, at most 1). Default: 0.2.
        weight_decay: decoupled weight decay, on matrices only (0 to 10). Default: 0.05.
        beta1: AdamW's memory of gradients (< 1). Default: 0.9.
        beta2: AdamW's memory of squared gradients (< 1). Default: 0.98.
        momentum: Muon's memory of gradients (< 1). Default: 0.95.
        clip: largest norm of a step's gradient, 0 = no limit. Default: 1.0.
        label_smoothing: share of the target spread over all tokens (< 1). Default: 0.0.

    Settings, where and how it runs:
        seed: seed of weights, order, masks and dropout. Default: 1.
        device: where to train; auto takes the fastest there is. Default: 'auto'.
        dtype: numbers in matrix products (weights, norms and losses stay float32); auto: bfloat16 where the device has units for it (CUDA, CPUs with AMX or AVX512-BF16), float16 on older GPUs, float32 elsewhere. Default: 'auto'.
        threads: CPU threads, 0 = one per core; another number gives slightly other weights (0 to 1024). Default: 0.
        compile: torch.compile: worth its first minute on CUDA (auto). Default: 'auto'.
        recompute: gradient checkpointing: keep only each block's input and compute the rest again; slower, far less memory. Default: False.
        deterministic: same bytes from every run on a GPU too, slower; a CPU always gives them. Default: False.
        checkpoint_seconds: seconds between checkpoints (> 0). Default: 60.
        checkpoint_steps: also a checkpoint every this many steps, 0 = by time only. Default: 0.
        report_every: steps between two rows of the log; the screen is refreshed every few seconds. Default: 10.
        eval_every: steps between validations, 0 = five over the run. Default: 0.
        valid_tokens: held-out positions looked at in each validation. Default: 32768.
        patience: warn when the loss has not fallen below the unigram entropy after this many steps, 0 = half of all. Default: 0.

    Settings, what it starts from:
        init_embeddings: start from the vectors of this words artifact, trained with unit token. Default: None.

    Settings, masks:
        mask_rate: share of the tokens that the generator guesses (> 0, at most 0.9). Default: 0.15.
        mask_unit: what is hidden together: single tokens, whole words, or spans of whole words. Default: 'token'.
        mask_share: of these, the share shown as [MASK]; 1 = all of them (0 to 1). Default: 1.0.
        random_share: of these, the share shown as a random token, else 0.1 or what mask_share leaves; the rest as it is (0 to 1). Default: None.

    Settings, the generator:
        generator_size: width of the generator, as a share of the model's (> 0, at most 1). Default: 0.25.
    """

def train_mlm(
    tokens: PathLike, *, output: PathLike, run: RunOptions | None = None,
    preset: Literal['tiny', 'mini', 'small', 'base'] = 'mini', steps: int | None = None, epochs: float | None = None,
    minutes: float | None = None, style: Literal['modern', 'classic'] = 'modern', dim: int | None = None,
    n_layers: int | None = None, n_heads: int | None = None, n_kv_heads: int | None = None, ffn_dim: int | None = None,
    norm: Literal['layer', 'rms'] | None = None, norm_place: Literal['pre', 'post'] | None = None,
    feedforward: Literal['relu', 'gelu', 'gelu_tanh', 'silu', 'geglu', 'geglu_tanh', 'swiglu'] | None = None,
    tied: bool = True, dropout: float = 0.0, seq_len: int | None = None, batch_size: int | None = None,
    micro_batch: int = 0, optimiser: Literal['muon', 'adamw'] = 'muon', lr: float | None = None,
    min_lr_frac: float = 0.1, warmup: float = 0.2,
    schedule: Literal['cosine', 'linear', 'wsd', 'noam', 'constant'] = 'cosine', decay: float = 0.2,
    weight_decay: float = 0.05, beta1: float = 0.9, beta2: float = 0.98, momentum: float = 0.95, clip: float = 1.0,
    label_smoothing: float = 0.0, seed: int = 1, device: Literal['auto', 'cpu', 'cuda', 'mps'] = 'auto',
    dtype: Literal['auto', 'float32', 'bfloat16', 'float16'] = 'auto', threads: int = 0,
    compile: Literal['auto', 'on', 'off'] = 'auto', recompute: bool = False, deterministic: bool = False,
    checkpoint_seconds: float = 60, checkpoint_steps: int = 0, report_every: int = 10, eval_every: int = 0,
    valid_tokens: int = 32768, patience: int = 0, shared_layers: bool = False,
    positions: Literal['rope', 'learned', 'sinusoidal', 'alibi', 't5', 'none'] | None = None,
    attention: Literal['dot', 'additive', 'linear', 'performer', 'linformer', 'relative'] = 'dot', mixers: str = '',
    linformer_dim: int = 64, state_dim: int = 32, mem_len: int = 0, window: int = 0, global_every: int = 3,
    global_tokens: int = 0, embedding_dim: int = 0, keep_state: bool = True, init: PathLike | None = None,
    extend: PathLike | None = None, init_embeddings: PathLike | None = None, mask_rate: float = 0.3,
    mask_unit: Literal['token', 'word', 'span'] = 'token', mask_share: float = 0.8, random_share: float | None = None,
    mask_rate_end: float | None = None, pair: Literal['none', 'nsp', 'sop'] = 'none', teacher: PathLike | None = None,
) -> Made:
    """Train a bidirectional transformer by masked language modelling.

    A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact.
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.

    Settings:
        preset: size of the model, with a batch and a learning rate that suit it; with init only the batch and the length. Default: 'mini'.
        steps: optimiser steps. Default: None.
        epochs: passes over the training text, instead of steps; with neither: 3, and at least 200 steps (> 0). Default: None.
        minutes: minutes that the training may take in all; as much is learned as fits, by a schedule that is planned from the measured pace; settings that say how much to learn are then the most (> 0). Default: None.

    Settings, the model:
        style: parts of the model: modern as ModernBERT and Llama, classic as BERT and GPT-2. Default: 'modern'.
        dim: width of the model, else the preset's (2 to 16384). Default: None.
        n_layers: blocks, else the preset's (1 to 256). Default: None.
        n_heads: attention heads, else the preset's (1 to 256). Default: None.
        n_kv_heads: key and value heads, shared by the query heads (grouped-query attention), else one each (1 to 256). Default: None.
        ffn_dim: inner width of the feed-forward, else the preset's (1 to 65536). Default: None.
        norm: LayerNorm or RMSNorm, else the style's. Default: None.
        norm_place: norms before or after each half of a block, else the style's. Default: None.
        feedforward: activation of the feed-forward (geglu, swiglu: gated), else the style's. Default: None.
        tied: the output matrix is the embedding table. Default: True.
        dropout: share of each block's output zeroed in training (< 1). Default: 0.0.
        shared_layers: all layers have the weights of one, as in ALBERT. Default: False.
        positions: how positions are known, else the style's. Default: None.
        attention: how queries and keys are compared; all but dot have no class in transformers. Default: 'dot'.
        mixers: another mixer for each layer, as a pattern that is repeated over the layers: any attention, fourier, ssm (state spaces), such as ssm,ssm,dot. Default: ''.
        linformer_dim: with layers of linformer: keys that those of a sequence are brought down to (1 to 65536). Default: 64.
        state_dim: with layers of ssm: numbers of each channel's state, even (2 to 4096). Default: 32.
        mem_len: with layers of relative, of a decoder: a sequence is read in segments of so many positions, each of which sees itself and what is kept of the one before (Transformer-XL); 0 = all that came before (0 to 65536). Default: 0.
        window: how far a local layer sees to either side (a decoder: to the left), 0 = all layers see everything (0 to 65536). Default: 0.
        global_every: with a window: every this many layers one sees everything, the first included; 0 = none does (0 to 256). Default: 3.
        global_tokens: with a window: the first positions of a sequence see all and are seen by all (0 to 65536). Default: 0.
        embedding_dim: of an encoder: width of the embedding tables, from which a matrix leads to dim, as in ALBERT; 0 = dim (0 to 16384). Default: 0.

    Settings, the sequences:
        seq_len: positions of a sequence, special tokens included, else the preset's (8 to 65536). Default: None.
        batch_size: sequences per step, else the preset's. Default: None.
        micro_batch: sequences computed at once (gradients add up over the step), 0 = what the device takes. Default: 0.

    Settings, the optimiser:
        optimiser: muon for the matrices of the blocks, with AdamW for the rest; or AdamW for all. Default: 'muon'.
        lr: peak learning rate, else the preset's (> 0, at most 1000). Default: None.
        min_lr_frac: learning rate at the end, as a share of the peak (0 to 1). Default: 0.1.
        warmup: steps in which the learning rate rises: a share of all below 1, a number of steps from 1 on. Default: 0.2.
        schedule: after the warm-up: fall along a cosine or a line, stay and fall at the end (wsd: warm-up-stable-decay), fall with one over the root of the step (noam), or stay. Default: 'cosine'.
        decay: share of the steps in which a wsd schedule falls (> 0, at most 1). Default: 0.2.
        weight_decay: decoupled weight decay, on matrices only (0 to 10). Default: 0.05.
        beta1: AdamW's memory of gradients (< 1). Default: 0.9.
        beta2: AdamW's memory of squared gradients (< 1). Default: 0.98.
        momentum: Muon's memory of gradients (< 1). Default: 0.95.
        clip: largest norm of a step's gradient, 0 = no limit. Default: 1.0.
        label_smoothing: share of the target spread over all tokens (< 1). Default: 0.0.

    Settings, where and how it runs:
        seed: seed of weights, order, masks and dropout. Default: 1.
        device: where to train; auto takes the fastest there is. Default: 'auto'.
        dtype: numbers in matrix products (weights, norms and losses stay float32); auto: bfloat16 where the device has units for it (CUDA, CPUs with AMX or AVX512-BF16), float16 on older GPUs, float32 elsewhere. Default: 'auto'.
        threads: CPU threads, 0 = one per core; another number gives slightly other weights (0 to 1024). Default: 0.
        compile: torch.compile: worth its first minute on CUDA (auto). Default: 'auto'.
        recompute: gradient checkpointing: keep only each block's input and compute the rest again; slower, far less memory. Default: False.
        deterministic: same bytes from every run on a GPU too, slower; a CPU always gives them. Default: False.
        checkpoint_seconds: seconds between checkpoints (> 0). Default: 60.
        checkpoint_steps: also a checkpoint every this many steps, 0 = by time only. Default: 0.
        report_every: steps between two rows of the log; the screen is refreshed every few seconds. Default: 10.
        eval_every: steps between validations, 0 = five over the run. Default: 0.
        valid_tokens: held-out positions looked at in each validation. Default: 32768.
        patience: warn when the loss has not fallen below the unigram entropy after this many steps, 0 = half of all. Default: 0.
        keep_state: keep the optimiser's state in the model's folder, once or twice as large as the weights, so that extend can go on. Default: True.

    Settings, what it starts from:
        init: start from the weights of this model: an artifact, or a folder of transformers with the same tokenizer. Default: None.
        extend: go on where this finished model stopped, with its optimiser and its order of the text, to more steps. Default: None.
        init_embeddings: start from the vectors of this words artifact, trained with unit token. Default: None.

    Settings, masks:
        mask_rate: share of the tokens to guess in training (> 0, at most 0.9). Default: 0.3.
        mask_unit: what is hidden together: single tokens, whole words, or spans of whole words. Default: 'token'.
        mask_share: of these, the share shown as [MASK]; 1 = all of them (0 to 1). Default: 0.8.
        random_share: of these, the share shown as a random token, else 0.1 or what mask_share leaves; the rest as it is (0 to 1). Default: None.
        mask_rate_end: the same share at the end of the training, reached along a line, else the same all along (> 0, at most 0.9). Default: None.
        pair: two texts in each sequence, and a second guess: does one follow the other (nsp: BERT's next sentence), or have they changed places (sop: ALBERT's sentence order). Default: 'none'.
        teacher: learn from this masked model too (DistilBERT): its guesses and its hidden states; begin with every second layer of it. Default: None.
    """

def train_permutation(
    tokens: PathLike, *, output: PathLike, run: RunOptions | None = None,
    preset: Literal['tiny', 'mini', 'small', 'base'] = 'mini', steps: int | None = None, epochs: float | None = None,
    minutes: float | None = None, style: Literal['modern', 'classic'] = 'classic', dim: int | None = None,
    n_layers: int | None = None, n_heads: int | None = None, n_kv_heads: int | None = None, ffn_dim: int | None = None,
    norm: Literal['layer', 'rms'] | None = None, norm_place: Literal['pre', 'post'] | None = None,
    feedforward: Literal['relu', 'gelu', 'gelu_tanh', 'silu', 'geglu', 'geglu_tanh', 'swiglu'] | None = None,
    tied: bool = True, dropout: float = 0.0, seq_len: int | None = None, batch_size: int | None = None,
    micro_batch: int = 0, optimiser: Literal['muon', 'adamw'] = 'muon', lr: float | None = None,
    min_lr_frac: float = 0.1, warmup: float = 0.2,
    schedule: Literal['cosine', 'linear', 'wsd', 'noam', 'constant'] = 'cosine', decay: float = 0.2,
    weight_decay: float = 0.05, beta1: float = 0.9, beta2: float = 0.98, momentum: float = 0.95, clip: float = 1.0,
    label_smoothing: float = 0.0, seed: int = 1, device: Literal['auto', 'cpu', 'cuda', 'mps'] = 'auto',
    dtype: Literal['auto', 'float32', 'bfloat16', 'float16'] = 'auto', threads: int = 0,
    compile: Literal['auto', 'on', 'off'] = 'auto', recompute: bool = False, deterministic: bool = False,
    checkpoint_seconds: float = 60, checkpoint_steps: int = 0, report_every: int = 10, eval_every: int = 0,
    valid_tokens: int = 32768, patience: int = 0, shared_layers: bool = False, keep_state: bool = True,
    init: PathLike | None = None, extend: PathLike | None = None, init_embeddings: PathLike | None = None,
    mask_rate: float = 0.16666666666666666, max_span: int = 5,
) -> Made:
    """Train a bidirectional transformer to guess tokens in a random order, each from those before it in that order (XLNet).

    A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact.
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.

    Settings:
        preset: size of the model, with a batch and a learning rate that suit it; with init only the batch and the length. Default: 'mini'.
        steps: optimiser steps. Default: None.
        epochs: passes over the training text, instead of steps; with neither: 3, and at least 200 steps (> 0). Default: None.
        minutes: minutes that the training may take in all; as much is learned as fits, by a schedule that is planned from the measured pace; settings that say how much to learn are then the most (> 0). Default: None.

    Settings, the model:
        style: parts of the model: classic as XLNet; modern as ModernBERT, in our own format. Default: 'classic'.
        dim: width of the model, else the preset's (2 to 16384). Default: None.
        n_layers: blocks, else the preset's (1 to 256). Default: None.
        n_heads: attention heads, else the preset's (1 to 256). Default: None.
        n_kv_heads: key and value heads, shared by the query heads (grouped-query attention), else one each (1 to 256). Default: None.
        ffn_dim: inner width of the feed-forward, else the preset's (1 to 65536). Default: None.
        norm: LayerNorm or RMSNorm, else the style's. Default: None.
        norm_place: norms before or after each half of a block, else the style's. Default: None.
        feedforward: activation of the feed-forward (geglu, swiglu: gated), else the style's. Default: None.
        tied: the output matrix is the embedding table. Default: True.
        dropout: share of each block's output zeroed in training (< 1). Default: 0.0.
        shared_layers: all layers have the weights of one, as in ALBERT. Default: False.

    Settings, the sequences:
        seq_len: positions of a sequence, special tokens included, else the preset's (8 to 65536). Default: None.
        batch_size: sequences per step, else the preset's. Default: None.
        micro_batch: sequences computed at once (gradients add up over the step), 0 = what the device takes. Default: 0.

    Settings, the optimiser:
        optimiser: muon for the matrices of the blocks, with AdamW for the rest; or AdamW for all. Default: 'muon'.
        lr: peak learning rate, else the preset's (> 0, at most 1000). Default: None.
        min_lr_frac: learning rate at the end, as a share of the peak (0 to 1). Default: 0.1.
        warmup: steps in which the learning rate rises: a share of all below 1, a number of steps from 1 on. Default: 0.2.
        schedule: after the warm-up: fall along a cosine or a line, stay and fall at the end (wsd: warm-up-stable-decay), fall with one over the root of the step (noam), or stay. Default: 'cosine'.
        decay: share of the steps in which a wsd schedule falls (> 0, at most 1). Default: 0.2.
        weight_decay: decoupled weight decay, on matrices only (0 to 10). Default: 0.05.
        beta1: AdamW's memory of gradients (< 1). Default: 0.9.
        beta2: AdamW's memory of squared gradients (< 1). Default: 0.98.
        momentum: Muon's memory of gradients (< 1). Default: 0.95.
        clip: largest norm of a step's gradient, 0 = no limit. Default: 1.0.
        label_smoothing: share of the target spread over all tokens (< 1). Default: 0.0.

    Settings, where and how it runs:
        seed: seed of weights, order, masks and dropout. Default: 1.
        device: where to train; auto takes the fastest there is. Default: 'auto'.
        dtype: numbers in matrix products (weights, norms and losses stay float32); auto: bfloat16 where the device has units for it (CUDA, CPUs with AMX or AVX512-BF16), float16 on older GPUs, float32 elsewhere. Default: 'auto'.
        threads: CPU threads, 0 = one per core; another number gives slightly other weights (0 to 1024). Default: 0.
        compile: torch.compile: worth its first minute on CUDA (auto). Default: 'auto'.
        recompute: gradient checkpointing: keep only each block's input and compute the rest again; slower, far less memory. Default: False.
        deterministic: same bytes from every run on a GPU too, slower; a CPU always gives them. Default: False.
        checkpoint_seconds: seconds between checkpoints (> 0). Default: 60.
        checkpoint_steps: also a checkpoint every this many steps, 0 = by time only. Default: 0.
        report_every: steps between two rows of the log; the screen is refreshed every few seconds. Default: 10.
        eval_every: steps between validations, 0 = five over the run. Default: 0.
        valid_tokens: held-out positions looked at in each validation. Default: 32768.
        patience: warn when the loss has not fallen below the unigram entropy after this many steps, 0 = half of all. Default: 0.
        keep_state: keep the optimiser's state in the model's folder, once or twice as large as the weights, so that extend can go on. Default: True.

    Settings, what it starts from:
        init: start from the weights of this model: an artifact, or a folder of transformers with the same tokenizer. Default: None.
        extend: go on where this finished model stopped, with its optimiser and its order of the text, to more steps. Default: None.
        init_embeddings: start from the vectors of this words artifact, trained with unit token. Default: None.

    Settings, what is guessed:
        mask_rate: share of the tokens to guess, the last ones in the order (> 0, at most 0.9). Default: 0.16666666666666666.
        max_span: most tokens side by side that are guessed together (1 to 10). Default: 5.
    """

def train_reader(
    corpus: PathLike | Iterable[Any], *, output: Any, run: RunOptions | None = None, init: PathLike | None = None,
    epochs: float | None = None, minutes: float | None = None, lr: float | None = None, batch_size: int = 32,
    seeds: int = 1, freeze: int = 0, seed: int = 1, device: Literal['auto', 'cpu', 'cuda', 'mps'] = 'auto',
    held_out: float = 0.1, layer_decay: float = 0.8, warmup: float = 0.1, weight_decay: float = 0.01,
    dropout: float = 0.1, patience: int = 0, evaluations: int = 10, seq_len: int | None = None,
    dtype: Literal['auto', 'float32', 'bfloat16', 'float16'] = 'auto', threads: int = 0, checkpoint_seconds: float = 60,
    checkpoint_steps: int = 0, report_every: int = 10, max_query: int = 64, max_answer: int = 30, stride: int = 128,
    n_best: int = 20,
) -> Made:
    """Teach a trained transformer to find the answers of questions in passages.

    A run that was stopped is continued by the same call, exactly.

    Args:
        corpus: passages with questions and answers: SQuAD's JSON, or records with `text_b` (the question) and `spans` (the
            answers that are right; an empty list: there is none).
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.

    Settings:
        init: what to start from: a model of train mlm or clm, or a folder of transformers; or, to be done in seconds, word vectors or a static encoder. Default: None.
        epochs: passes over the labelled texts, else 5, of a tagger 8, of a reader 3, and at least 200 steps; of word vectors 600 (> 0, at most 10000). Default: None.
        minutes: minutes that the training may take in all; as much is learned as fits, by a schedule that is planned from the measured pace; settings that say how much to learn are then the most (> 0). Default: None.
        lr: peak learning rate of the head, else 5e-4, of word vectors 0.01; the layers below have shares of it (> 0, at most 1). Default: None.
        batch_size: texts per step (1 to 65536). Default: 32.
        seeds: train so many models, of different seeds, and keep the one best on held-out text (1 to 100). Default: 1.
        freeze: leave so many layers as they are, counted from the embeddings (1: these alone) (0 to 257). Default: 0.
        seed: seed of the head, the order and dropout. Default: 1.
        device: where to train; auto takes the fastest there is. Default: 'auto'.

    Settings, learning:
        held_out: share of the texts held out, by a hash of the text, where the corpus holds out fewer: on them the best weights are found and probabilities calibrated (> 0, < 1). Default: 0.1.
        layer_decay: learning rate of a layer as a share of that of the layer above it (> 0, at most 1). Default: 0.8.
        warmup: steps in which the learning rate rises: a share of all below 1, a number of steps from 1 on. Default: 0.1.
        weight_decay: decoupled weight decay, on matrices only (0 to 10). Default: 0.01.
        dropout: share of each block's output, and of the head's input, zeroed (< 1). Default: 0.1.
        patience: stop when so many validations in a row are no better than the best one, 0 = go on to the end (0 to 1000). Default: 0.
        evaluations: validations over the run; the best weights of all are kept (1 to 1000). Default: 10.
        seq_len: tokens of a text that are read, special ones included, else as many as the model has (8 to 65536). Default: None.
        dtype: numbers in matrix products; auto: the fastest of the device. Default: 'auto'.
        threads: CPU threads, 0 = one per core, of word vectors one; another number gives slightly other weights (0 to 1024). Default: 0.
        checkpoint_seconds: seconds between checkpoints (> 0). Default: 60.
        checkpoint_steps: also a checkpoint every this many steps, 0 = by time only. Default: 0.
        report_every: steps between two rows of the log. Default: 10.

    Settings, reading:
        max_query: tokens of a question that are read, and at most half of the model's (1 to 1024). Default: 64.
        max_answer: tokens of an answer, at most (1 to 1024). Default: 30.
        stride: tokens from one window of a long passage to the next, and at most half of a window (1 to 65536). Default: 128.
        n_best: answers among which probabilities are shared (1 to 1000). Default: 20.
    """

def train_seq2seq(
    tokens: PathLike, *, output: PathLike, run: RunOptions | None = None,
    preset: Literal['tiny', 'mini', 'small', 'base'] = 'mini', steps: int | None = None, epochs: float | None = None,
    minutes: float | None = None, style: Literal['t5', 'bart', 'vaswani'] = 'vaswani', dim: int | None = None,
    n_layers: int | None = None, n_heads: int | None = None, n_kv_heads: int | None = None, ffn_dim: int | None = None,
    norm: Literal['layer', 'rms'] | None = None, norm_place: Literal['pre', 'post'] | None = None,
    feedforward: Literal['relu', 'gelu', 'gelu_tanh', 'silu', 'geglu', 'geglu_tanh', 'swiglu'] | None = None,
    tied: bool = True, dropout: float = 0.1, seq_len: int | None = None, batch_size: int | None = None,
    micro_batch: int = 0, optimiser: Literal['muon', 'adamw'] = 'muon', lr: float | None = None,
    min_lr_frac: float = 0.1, warmup: float = 0.2,
    schedule: Literal['cosine', 'linear', 'wsd', 'noam', 'constant'] = 'cosine', decay: float = 0.2,
    weight_decay: float = 0.05, beta1: float = 0.9, beta2: float = 0.98, momentum: float = 0.95, clip: float = 1.0,
    label_smoothing: float = 0.1, seed: int = 1, device: Literal['auto', 'cpu', 'cuda', 'mps'] = 'auto',
    dtype: Literal['auto', 'float32', 'bfloat16', 'float16'] = 'auto', threads: int = 0,
    compile: Literal['auto', 'on', 'off'] = 'auto', recompute: bool = False, deterministic: bool = False,
    checkpoint_seconds: float = 60, checkpoint_steps: int = 0, report_every: int = 10, eval_every: int = 0,
    valid_tokens: int = 32768, patience: int = 0,
    positions: Literal['rope', 'learned', 'sinusoidal', 'alibi', 't5', 'none'] | None = None, keep_state: bool = True,
    init: PathLike | None = None, extend: PathLike | None = None, n_decoder_layers: int | None = None,
    average: float = 0.1, prefix: str = '', prefix_field: str = '',
) -> Made:
    """Train an encoder-decoder on pairs: translations, titles, answers.

    A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact of pairs: its corpus has a second text (`ingest --text-b`, `ingest --parallel`).
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.

    Settings:
        preset: size of the model, with a batch and a learning rate that suit it; with init only the batch and the length. Default: 'mini'.
        steps: optimiser steps. Default: None.
        epochs: passes over the training text, instead of steps; with neither: 3, and at least 200 steps (> 0). Default: None.
        minutes: minutes that the training may take in all; as much is learned as fits, by a schedule that is planned from the measured pace; settings that say how much to learn are then the most (> 0). Default: None.

    Settings, the model:
        style: parts of the model: as T5 1.1, as BART, or as the first transformer (saved as Marian). Default: 'vaswani'.
        dim: width of the model, else the preset's (2 to 16384). Default: None.
        n_layers: blocks, else the preset's (1 to 256). Default: None.
        n_heads: attention heads, else the preset's (1 to 256). Default: None.
        n_kv_heads: key and value heads, shared by the query heads (grouped-query attention), else one each (1 to 256). Default: None.
        ffn_dim: inner width of the feed-forward, else the preset's (1 to 65536). Default: None.
        norm: LayerNorm or RMSNorm, else the style's. Default: None.
        norm_place: norms before or after each half of a block, else the style's. Default: None.
        feedforward: activation of the feed-forward (geglu, swiglu: gated), else the style's. Default: None.
        tied: the output matrix is the embedding table. Default: True.
        dropout: share of each block's output zeroed in training (< 1). Default: 0.1.
        positions: how positions are known, else the style's. Default: None.
        n_decoder_layers: blocks of the decoder, else as many as of the encoder (1 to 256). Default: None.

    Settings, the sequences:
        seq_len: positions of a sequence, special tokens included, else the preset's (8 to 65536). Default: None.
        batch_size: sequences per step, else the preset's. Default: None.
        micro_batch: sequences computed at once (gradients add up over the step), 0 = what the device takes. Default: 0.

    Settings, the optimiser:
        optimiser: muon for the matrices of the blocks, with AdamW for the rest; or AdamW for all. Default: 'muon'.
        lr: peak learning rate, else the preset's (> 0, at most 1000). Default: None.
        min_lr_frac: learning rate at the end, as a share of the peak (0 to 1). Default: 0.1.
        warmup: steps in which the learning rate rises: a share of all below 1, a number of steps from 1 on. Default: 0.2.
        schedule: after the warm-up: fall along a cosine or a line, stay and fall at the end (wsd: warm-up-stable-decay), fall with one over the root of the step (noam), or stay. Default: 'cosine'.
        decay: share of the steps in which a wsd schedule falls (> 0, at most 1). Default: 0.2.
        weight_decay: decoupled weight decay, on matrices only (0 to 10). Default: 0.05.
        beta1: AdamW's memory of gradients (< 1). Default: 0.9.
        beta2: AdamW's memory of squared gradients (< 1). Default: 0.98.
        momentum: Muon's memory of gradients (< 1). Default: 0.95.
        clip: largest norm of a step's gradient, 0 = no limit. Default: 1.0.
        label_smoothing: share of the target spread over all tokens (< 1). Default: 0.1.
        average: the weights are the mean of about ten sets, evenly spread over this share of the steps at the end; 0 = the last ones (0 to 1). Default: 0.1.

    Settings, where and how it runs:
        seed: seed of weights, order, noise and dropout. Default: 1.
        device: where to train; auto takes the fastest there is. Default: 'auto'.
        dtype: numbers in matrix products (weights, norms and losses stay float32); auto: bfloat16 where the device has units for it (CUDA, CPUs with AMX or AVX512-BF16), float16 on older GPUs, float32 elsewhere. Default: 'auto'.
        threads: CPU threads, 0 = one per core; another number gives slightly other weights (0 to 1024). Default: 0.
        compile: torch.compile: worth its first minute on CUDA (auto). Default: 'auto'.
        recompute: gradient checkpointing: keep only each block's input and compute the rest again; slower, far less memory. Default: False.
        deterministic: same bytes from every run on a GPU too, slower; a CPU always gives them. Default: False.
        checkpoint_seconds: seconds between checkpoints (> 0). Default: 60.
        checkpoint_steps: also a checkpoint every this many steps, 0 = by time only. Default: 0.
        report_every: steps between two rows of the log; the screen is refreshed every few seconds. Default: 10.
        eval_every: steps between validations, 0 = five over the run. Default: 0.
        valid_tokens: held-out positions looked at in each validation. Default: 32768.
        patience: warn when the loss has not fallen below the unigram entropy after this many steps, 0 = half of all. Default: 0.
        keep_state: keep the optimiser's state in the model's folder, once or twice as large as the weights, so that extend can go on. Default: True.

    Settings, what it starts from:
        init: start from the weights of this model: an artifact, or a folder of transformers with the same tokenizer. Default: None.
        extend: go on where this finished model stopped, with its optimiser and its order of the text, to more steps. Default: None.

    Settings, the pairs:
        prefix: text put before every source, such as "translate German to English: ". Default: ''.
        prefix_field: field of the records that holds such a text, as it is, for each source: several tasks in one model. Default: ''.
    """

def train_static(
    tokens: PathLike, *, output: PathLike, run: RunOptions | None = None,
    goal: Literal['similarity', 'search'] = 'similarity', steps: int | None = None, epochs: float | None = None,
    minutes: float | None = None, batch_size: int | None = None, pairs: PathLike | None = None,
    pair_neighbour: float | None = None, pair_crop: float | None = None, pair_title: float | None = None,
    pair_deletion: float | None = None, pair_file: float | None = None, deletion_rate: float = 0.2,
    max_words: int = 256, temperature: float = 0.05, false_negatives: Literal['keep', 'drop'] = 'drop',
    max_similarity: float = 1.0, unit: Literal['word', 'token'] = 'word', words: PathLike | None = None,
    words_weight: float | None = None, lexical_weight: float | None = None, lexical_dim: int = 512,
    lsi_weight: float | None = None, lsi_dim: int = 300, weighting: Literal['sif', 'idf'] | None = None,
    sif_a: float = 0.001, number_weight: float = 2.0, punctuation_weight: float = 0.5, piece_weight: float = 0.5,
    negation_weight: float = 0.3, min_count: int | None = None, init: PathLike | None = None, lr: float = 0.01,
    min_lr_frac: float = 0.1, warmup: float = 0.1,
    schedule: Literal['cosine', 'linear', 'wsd', 'noam', 'constant'] = 'cosine', decay: float = 0.2, beta1: float = 0.9,
    beta2: float = 0.999, seed: int = 1, threads: int = 0, checkpoint_seconds: float = 60, checkpoint_steps: int = 0,
    report_every: int = 10, eval_every: int = 0, valid_pairs: int = 1000,
) -> Made:
    """Train a table of vectors that encodes texts, without labels: what belongs together comes near, others are kept apart.

    A run that was stopped is continued by the same call, exactly.

    Args:
        tokens: a tokens artifact.
        output: folder of the model artifact, which sentence-transformers loads as it is.
        run: progress, fresh start, verification.

    Settings:
        goal: similarity: texts that say the same are near; search: a question is near the text that answers it. Default: 'similarity'.
        steps: optimiser steps. Default: None.
        epochs: passes over the sentences, instead of steps; with neither: 1, and at least 200 steps (> 0). Default: None.
        minutes: minutes that the training may take in all; as much is learned as fits, by a schedule that is planned from the measured pace; settings that say how much to learn are then the most (> 0). Default: None.
        batch_size: pairs per step, each the negative of all others; else 1024 of train static, 128 of train contrastive, or one for each sentence where there are fewer (2 to 65536). Default: None.

    Settings, the pairs (shares; with none given they follow the goal):
        pairs: pairs of your own: a Parquet or JSON Lines file, of which the first two text columns are read. Default: None.
        pair_neighbour: share: a sentence and the next one of its document (0 to 1). Default: None.
        pair_crop: share: two random spans of one document (0 to 1). Default: None.
        pair_title: share: a document's title and a span of it (0 to 1). Default: None.
        pair_deletion: share: one sentence twice, other words left out of each (0 to 1). Default: None.
        pair_file: share: from the file of pairs; else half where one is given (0 to 1). Default: None.
        deletion_rate: words left out of deletion pairs and of crops (0 to 0.9). Default: 0.2.
        max_words: words (or tokens) of a text that are read; longer ones are cut, and counted (at least 8). Default: 256.

    Settings, the loss:
        temperature: temperature of the softmax over the batch: lower looks harder at near misses (> 0, at most 10). Default: 0.05.
        false_negatives: texts of the same document, or the same text again, as negatives of each other. Default: 'drop'.
        max_similarity: negatives with a cosine above this are left out as likely to mean the same; 1 = none (> 0, at most 1). Default: 1.0.

    Settings, the static table:
        unit: what has a vector, words or the tokenizer's tokens. Default: 'word'.
        words: begin with the vectors of this words artifact. Default: None.
        words_weight: share of the word vectors in the table it begins with; else 0.25 for search, 1 for similarity (0 to 1000). Default: None.
        lexical_weight: share of random directions, one for each stem, by which equal words alone meet; else 0.5 for search, 1 for similarity (0 to 1000). Default: None.
        lexical_dim: dimensions of the random directions (1 to 4096). Default: 512.
        lsi_weight: share of latent semantic indexing, which words stand in the same documents; else 1 for search, 0 for similarity (0 to 1000). Default: None.
        lsi_dim: dimensions of the latent semantic part (1 to 4096). Default: 300.
        weighting: what a word begins to weigh, by its share of the text or by how few passages hold its stem; else idf for search, sif for similarity. Default: None.
        sif_a: by sif a word of share p in the text weighs a / (a + p) (> 0, at most 1). Default: 0.001.
        number_weight: for similarity: how much more numbers weigh after the training (> 0, at most 1000). Default: 2.0.
        punctuation_weight: for similarity: weight of tokens without a letter or digit after the training (> 0, at most 1000). Default: 0.5.
        piece_weight: for similarity: weight of word pieces after the first, after the training (> 0, at most 1000). Default: 0.5.
        negation_weight: for similarity: length of the direction of English words that deny, sentences being about 1 long (0 to 1000). Default: 0.3.
        min_count: rarer words get no vector; else 2, but 1 for search in up to 100,000 different words. Default: None.
        init: start from the table of this model, of an earlier `train static`. Default: None.

    Settings, the optimiser:
        lr: peak learning rate, a share of what a row begins as (> 0, at most 1000). Default: 0.01.
        min_lr_frac: learning rate at the end, as a share of the peak (0 to 1). Default: 0.1.
        warmup: steps in which the learning rate rises: a share below 1, a number of steps from 1 on. Default: 0.1.
        schedule: how the learning rate falls after the warm-up. Default: 'cosine'.
        decay: share of the steps in which a wsd schedule falls (> 0, at most 1). Default: 0.2.
        beta1: Adam's memory of gradients (< 1). Default: 0.9.
        beta2: Adam's memory of squared gradients (< 1). Default: 0.999.

    Settings, where and how it runs:
        seed: seed of pairs, order, deletion and first weights. Default: 1.
        threads: CPU threads, 0 = one per core; another number gives slightly other weights (0 to 1024). Default: 0.
        checkpoint_seconds: seconds between checkpoints (> 0). Default: 60.
        checkpoint_steps: also a checkpoint every this many steps, 0 = by time only. Default: 0.
        report_every: steps between two rows of the log. Default: 10.
        eval_every: steps between validations, 0 = five over the run. Default: 0.
        valid_pairs: held-out pairs among which partners are looked for (at least 2). Default: 1000.
    """

def train_tagger(
    corpus: PathLike | Iterable[Any], *, output: Any, run: RunOptions | None = None, init: PathLike | None = None,
    epochs: float | None = None, minutes: float | None = None, lr: float | None = None, batch_size: int = 32,
    seeds: int = 1, freeze: int = 0, seed: int = 1, device: Literal['auto', 'cpu', 'cuda', 'mps'] = 'auto',
    held_out: float = 0.1, layer_decay: float = 0.8, warmup: float = 0.1, weight_decay: float = 0.01,
    dropout: float = 0.1, patience: int = 0, evaluations: int = 10, seq_len: int | None = None,
    dtype: Literal['auto', 'float32', 'bfloat16', 'float16'] = 'auto', threads: int = 0, checkpoint_seconds: float = 60,
    checkpoint_steps: int = 0, report_every: int = 10,
) -> Made:
    """Teach a trained transformer, or word vectors, to tag words: names, parts of speech.

    A run that was stopped is continued by the same call, exactly.

    Args:
        corpus: a corpus with a tag for each word, as white space parts them (`ingest --tags-field`).
        output: folder of the model artifact, which transformers loads as it is.
        run: progress, fresh start, verification.

    Settings:
        init: what to start from: a model of train mlm or clm, or a folder of transformers; or, to be done in seconds, word vectors or a static encoder. Default: None.
        epochs: passes over the labelled texts, else 5, of a tagger 8, of a reader 3, and at least 200 steps; of word vectors 600 (> 0, at most 10000). Default: None.
        minutes: minutes that the training may take in all; as much is learned as fits, by a schedule that is planned from the measured pace; settings that say how much to learn are then the most (> 0). Default: None.
        lr: peak learning rate of the head, else 5e-4, of word vectors 0.01; the layers below have shares of it (> 0, at most 1). Default: None.
        batch_size: texts per step (1 to 65536). Default: 32.
        seeds: train so many models, of different seeds, and keep the one best on held-out text (1 to 100). Default: 1.
        freeze: leave so many layers as they are, counted from the embeddings (1: these alone) (0 to 257). Default: 0.
        seed: seed of the head, the order and dropout. Default: 1.
        device: where to train; auto takes the fastest there is. Default: 'auto'.

    Settings, learning:
        held_out: share of the texts held out, by a hash of the text, where the corpus holds out fewer: on them the best weights are found and probabilities calibrated (> 0, < 1). Default: 0.1.
        layer_decay: learning rate of a layer as a share of that of the layer above it (> 0, at most 1). Default: 0.8.
        warmup: steps in which the learning rate rises: a share of all below 1, a number of steps from 1 on. Default: 0.1.
        weight_decay: decoupled weight decay, on matrices only (0 to 10). Default: 0.01.
        dropout: share of each block's output, and of the head's input, zeroed (< 1). Default: 0.1.
        patience: stop when so many validations in a row are no better than the best one, 0 = go on to the end (0 to 1000). Default: 0.
        evaluations: validations over the run; the best weights of all are kept (1 to 1000). Default: 10.
        seq_len: tokens of a text that are read, special ones included, else as many as the model has (8 to 65536). Default: None.
        dtype: numbers in matrix products; auto: the fastest of the device. Default: 'auto'.
        threads: CPU threads, 0 = one per core, of word vectors one; another number gives slightly other weights (0 to 1024). Default: 0.
        checkpoint_seconds: seconds between checkpoints (> 0). Default: 60.
        checkpoint_steps: also a checkpoint every this many steps, 0 = by time only. Default: 0.
        report_every: steps between two rows of the log. Default: 10.
    """

def train_word2vec(
    tokens: PathLike, *, output: PathLike, run: RunOptions | None = None,
    architecture: Literal['skipgram', 'cbow'] = 'skipgram', loss: Literal['ns', 'hs', 'softmax'] = 'ns',
    unit: Literal['word', 'token'] = 'word', context: Literal['sentence', 'document'] = 'document', dim: int = 100,
    window: int | None = None, dynamic_window: bool = True, negatives: int = 5, ns_exponent: float = 0.75,
    epochs: int | None = None, minutes: float | None = None, min_count: int | None = None, subsample: float = 0.001,
    min_n: int = 3, max_n: int = 0, max_ngrams: int = 2000000, lr: float | None = None, min_lr: float = 0.0001,
    vectors: Literal['inputs', 'outputs', 'sum'] = 'inputs', remove_components: int = 0, keep_outputs: bool = True,
    init: PathLike | None = None, seed: int = 1, deterministic: bool = False, threads: int = 0,
    backend: Literal['auto', 'native', 'gensim'] = 'auto', checkpoint_seconds: float = 60,
) -> Made:
    """Train word vectors on a tokens artifact.

    A run that was stopped is continued by the same call, exactly where `deterministic` is set.

    Args:
        tokens: a tokens artifact.
        output: folder of the words artifact.
        run: progress, fresh start, verification.

    Settings, what is learned:
        architecture: each neighbour predicts the word (skipgram), or their mean does (cbow). Default: 'skipgram'.
        loss: what is predicted: the word among noise words (negative sampling), its path in a Huffman tree (hierarchical softmax), or the word among all words (softmax, for small vocabularies). Default: 'ns'.
        unit: what gets a vector: words, or the tokenizer's tokens (to initialise a transformer). Default: 'word'.
        context: what a window may not reach beyond. Default: 'document'.
        dim: numbers per vector (1 to 4096). Default: 100.
        window: words looked at on each side, else by the size of the text (1 to 1000). Default: None.
        dynamic_window: each centre draws its own reach from 1 to the window, so near words count more. Default: True.
        negatives: noise words per window, for ns (1 to 1000). Default: 5.
        ns_exponent: noise words are drawn by count to this power, for ns (-2 to 2). Default: 0.75.

    Settings, how much of the text:
        epochs: passes over the text, else by its size. Default: None.
        minutes: minutes that the training may take in all; as much is learned as fits, by a schedule that is planned from the measured pace; settings that say how much to learn are then the most (> 0). Default: None.
        min_count: rarer words get no vector, else by the size of the text. Default: None.
        subsample: words with a larger share of the text are skipped at random; 0 keeps all (0 to 1). Default: 0.001.

    Settings, character n-grams:
        min_n: shortest character n-gram, where max_n is given (1 to 50). Default: 3.
        max_n: longest character n-gram, 0 = none; words are then made of theirs, and unknown words get vectors (0 to 50). Default: 0.
        max_ngrams: with max_n: character n-grams kept, the commonest. Default: 2000000.

    Settings, the optimiser:
        lr: learning rate at the start, else 0.025 for skipgram, 0.05 for cbow; falls linearly with the words seen (> 0, at most 1). Default: None.
        min_lr: learning rate at the end (0 to 1). Default: 0.0001.

    Settings, what is kept:
        vectors: which vectors the words get: those that predict (what CBOW's context has), those that are predicted, or the sum of both. Default: 'inputs'.
        remove_components: all-but-the-top: take away the mean of all vectors and so many of their principal components; 0 = nothing (0 to 1000). Default: 0.
        keep_outputs: keep the output vectors too (not of hs), which init goes on from; doubles the artifact. Default: True.

    Settings, where and how it runs:
        init: go on from the vectors of this words artifact: more epochs, or more text. Default: None.
        seed: seed of initial vectors, windows, subsampling and noise. Default: 1.
        deterministic: same bytes from every run, whatever the threads: native and gensim then train on one. Default: False.
        threads: training threads, 0 = one per core; more than one updates without locks, so runs differ slightly (0 to 1024). Default: 0.
        backend: what trains, on the CPU: native (compiled) or gensim; auto: native. Default: 'auto'.
        checkpoint_seconds: seconds between checkpoints, which a stopped run goes on from; each is as large as all vectors, and three may exist (> 0). Default: 60.
    """

def verify(
    path: PathLike,
) -> dict[str, Any]:
    """Read every byte of an artifact and compare it with its hash, and every table with its row count.

    Args:
        path: an artifact.

    Returns:
        path, ok, kind, digest, files, bytes and warnings (inputs that have changed since).
    """
