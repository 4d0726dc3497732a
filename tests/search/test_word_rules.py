"""What becomes of words: the table of rules, in several languages; and the language that texts are recognised as."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.errors import ArtifactError
from wordpipe.search import (
    RULES,
    SWITCHED,
    Analyser,
    LexicalIndex,
    recognised_language,
    small_in_question,
    without_particle,
)  # fmt: skip
from wordpipe.search.settings import LexicalSettings

PLAIN = LexicalSettings(language="none")


def found(texts: list[str], asked: str, language: str = "none") -> list[str]:
    """The texts that are found, the best first."""
    (hits,) = LexicalIndex.build(texts, LexicalSettings(language=language)).search([asked], len(texts))
    return [texts[row] for row in hits.rows]


FILLER = ["A boat crossed the bay", "Snow lay on the roof", "Two dogs slept"]


@pytest.mark.parametrize(
    ("asked", "first", "other"),
    [
        # single letters and digits
        ("factor V", "factor V in blood", "factor X in blood"),
        ("gate 4", "at gate 4 now", "at gate 9 now"),
        ("группа Б", "группа Б", "группа А"),
        # signs within a word or at its end
        ("C++", "written in C++ since", "written in C since"),
        ("c#", "C# and its tools", "C and its tools"),
        (".NET", "the .NET runtime", "the net runtime"),
        ("node.js", "run node.js here", "run node and js here"),
        ("2.10.1", "version 2.10.1 is out", "version 2.1.10 is out"),
        ("v2.3", "since v2.3 only", "since v2.5 only"),
        ("B-52", "the B-52 flew", "52 cases of B flew"),
        ("R&D", "the R&D of it", "the R or D of it"),
        ("I/O", "slow I/O here", "slow O and I here"),
        ("1,500", "it has 1,500 seats", "it has 500 seats and 1"),
        ("ISO-8859-15", "ISO‑8859‑15 is old", "ISO 15 of 8859 is old"),
        # characters that nobody sees
        ("Donaudampf", "die Do\u00adnau\u00addampf", "die Donau"),
        ("keyboard", "a key\u200bboard", "a key"),
        ("keyboard", "a key\u2060board\ufeff", "a key"),
        ("name", "na\u202eme\u202c", "nam"),
        ("東京都", "東\u200b京都", "京都"),
        ("خواهم", "خواهم", "خواهیم"),
        # case of all scripts, compatibility forms
        ("STRASSE", "die Straße", "die Gasse"),
        ("ΟΔΟΣ", "η οδός", "η πόλη"),
        ("ꭰꭱꭲ", "ᎠᎡᎢ", "ᎣᎤᎥ"),
        ("CO2", "the CO₂ of air", "the O₂ of air"),
        ("file", "a ﬁle", "a pile"),
        ("ガラス", "ｶﾞﾗｽ", "カラス"),
        # letters with and without marks
        ("malaga", "Málaga", "Malagasy"),
        ("Zürich", "Zürich", "Zurich"),
        ("zurich", "Zurich", "Zürich"),
        ("oresund", "Øresund", "sund"),
        ("lodz", "Łódź", "lotz"),
        ("ежик", "ёжик", "еж"),
        ("كتاب", "كِتَاب", "كتب"),
        ("שלום", "שָׁלוֹם", "שלומי"),
        # Korean particles
        ("부산", "부산에서 만나요", "산에서 만나요"),
        ("도서관", "도서관은 조용하다", "관은 조용하다"),
    ],
)  # fmt: skip
def test_words_are_found_as_they_stand(asked, first, other):
    assert found([other, first, *FILLER], asked)[0] == first


@pytest.mark.parametrize(
    ("exact", "others"),
    [
        ("Zürich liegt am See hier", ["Zurich liegt am See"]),
        ("élève du lycée de la ville", ["eleve du lycee"]),
    ],
)
def test_the_exact_word_comes_first_and_the_other_form_is_found(exact, others):
    asked = exact.split()[0]
    assert found([*others, exact, *FILLER], asked) == [exact, *others]


def test_nothing_that_parts_found_is_lost_and_clitics_are_no_words():
    text = "AT&T's node.js isn't l'eau, e-mail x86-64 1,000 a+b c++17"
    terms = Analyser("none")(text)
    assert {"at", "node", "js", "isn", "eau", "mail", "x86", "64", "000"} <= {*terms}
    assert {"at&t", "node.js", "email", "x8664", "1,000", "c++17"} <= {*terms}
    assert {"s", "l", "isn't", "a+b", "a+"}.isdisjoint(terms)
    assert Analyser("english")("a plan, the plan") == ["plan", "plan"]


def test_letters_that_tell_words_apart_are_kept_and_both_are_found():
    assert Analyser("none")("می\u200cروم") == ["مي\u200cروم", "ميروم"]  # Arabic letters
    assert Analyser("none")("pass\u200cword") == ["password"]
    assert Analyser("none")("हिन्दू мой їжак") == ["हिन्दू", "हिंदू", "мой", "їжак"]  # vowels and letters, no marks
    assert Analyser("none")("❤️ \u3164 \u200d \u0301") == ["́"]


def test_turkish_has_two_letters_i():
    turkish = Analyser("turkish")
    assert turkish("DİYARBAKIR") == turkish("diyarbakır")
    assert Analyser("none")("DIYAR") == ["diyar"]
    assert found(["ISPARTA", *FILLER], "ısparta", "turkish") == ["ISPARTA"]
    assert found(["ISPARTA", *FILLER], "isparta", "turkish") == ["ISPARTA"]


words = st.text("aBé'’-.+#&/, 1\u00ad\u200b\u0301漢字서울은が가İßΣ\x1b_", max_size=40)


@given(text=words, language=st.sampled_from(["none", "english", "german", "turkish"]))
def test_places_are_those_of_the_terms_in_any_text(text, language):
    analyser = Analyser(language)
    places = [*analyser.places(text)]
    assert [term for _, _, term in places] == analyser(text)
    assert all(0 <= start < end <= len(text) and term for start, end, term in places)
    assert [start for start, _, _ in places] == sorted(start for start, _, _ in places)
    index = LexicalIndex.build([text], LexicalSettings(language=language))
    assert sorted({*Analyser(language)(text)}) == sorted(term.decode() for term in index.terms)
    if places:
        assert len(index.search([text], 1)[0]) == 1


@given(text=words)
def test_a_word_of_a_question_weighs_one_whatever_forms_it_has(text):
    index = LexicalIndex.build([text, "서울은 café C++"], PLAIN)
    one = index.read("café").length
    assert one == pytest.approx(1)
    assert index.read("cafè").length == pytest.approx(1)
    assert index.read("서울에서").length == pytest.approx(1)
    assert index.read("C++").length < 1


@given(
    st.lists(
        st.text("aBxYz", min_size=1, max_size=4) | st.sampled_from(["the", "is", "running", "x1", "7"]), max_size=5
    ),
    st.sampled_from(["-", "/", ",", ".", "&", "+", "'"]),
)
def test_runs_are_counted_as_they_are_read(words, sign):
    """Plain words and `my-own-name` go a shorter way; the terms are those of the run, each word has its own."""
    for language in ("english", "none", "turkish"):
        analyser = Analyser(language)
        for run in analyser.runs(sign.join(words)):
            forms = analyser.of_run(run)
            found = analyser.terms_of_runs([run])
            terms = [(term, is_long) for _, term, is_long in found.terms]
            plain = analyser.stems([word for _, word in found.plain])
            terms += [*((term, True) for term in plain), *((term, False) for term in analyser.stems(found.joined))]
            assert sorted(terms) == sorted((form.term, form.is_long) for form in forms)
            mains = [form.term for form in forms if form.is_main and form.end - form.start > 1]
            assert sorted([*plain, *analyser.stems([word for _, word in found.written])]) == sorted(mains)


@given(st.lists(st.text("aB.é-\x1e漢 \n", max_size=9), max_size=6))
def test_texts_that_are_cut_together_have_the_runs_of_each(texts):
    analyser = Analyser("none")
    runs, of_texts = analyser.all_runs(texts)
    for number, text in enumerate(texts):
        assert [run for run, of in zip(runs, of_texts, strict=True) if of == number] == analyser.runs(text)


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("email", "an e-mail came"), ("e-mail", "an email came"), ("COVID19", "the COVID-19 wave"), ("covid-19", "COVID19"),
        ("example", "a long exam-\nple of it"), ("example", "a long exam-\r\n   ple of it"), ("e-mails", "two emails"),
        ("LLM", "many LLMs"), ("LLMs", "one LLM"), ("pdf", "PDFs"), ("pdfs", "a PDF"), ("GPU", "GPUs"), ("GPUs", "a GPU"),
        ("llms", "an LLM"), ("RNNs", "rnn"), ("Onlineshop", "Online-Shop"), ("well known", "a well-known man"),
        ("Beispiel", "ein Bei‐\nspiel"),
    ],
)  # fmt: skip
def test_what_people_write_in_two_ways_is_found_in_both(asked, written):
    for language in ("none", "english", "german"):
        assert found([written, *FILLER], asked, language) == [written]


def test_the_s_of_a_word_is_no_plural_of_an_abbreviation():
    assert Analyser("none")("CSS DNS https bus gas GPS Is As Us ss") == [
        "css", "dns", "http", "bus", "gas", "gps", "is", "as", "us", "ss",
    ]  # fmt: skip


@pytest.mark.parametrize("n", [10**4, pytest.param(10**6, marks=pytest.mark.slow)])
def test_hostile_words_are_bounded(n):
    """A word of n letters, of signs, of marks: in linear time, and with terms that can be stored."""
    few = n // 10
    for text in ("a" * n, "a+" * n, "a.b" * n, "C" + "+" * n, "e" + "\u0301" * few, "\u200b" * n, "가" * few):
        index = LexicalIndex.build([text, "plain words"], PLAIN)
        assert len(index.search(["plain"], 2)[0]) == 1
        assert index.postings.all()[2].sum() <= 3 * len(text)


def test_settings_of_an_index_that_are_none_are_refused():
    files = dict(LexicalIndex.build(["plan B", "plan C", "naïve"], PLAIN).files())
    about = json.loads(files["lexical.json"])
    with pytest.raises(ArtifactError, match="the lexical index cannot be read"):
        LexicalIndex.load({**files, "lexical.json": json.dumps({**about, "stems": "yes"}).encode()})


TEXTS = {
    "danish": "Hun blev nødt til at se efter noget andet, da de nu skulle ud af huset, og han var ikke selv kommet op",
    "dutch": "Het is niet duidelijk waarom de deur van het huis open was toen wij er aankwamen met onze vrienden",
    "english": "The bees find their way home by the sun and by what they have seen on the way to the flowers",
    "finnish": "Hän ei ole vielä kotona, mutta he ovat jo siellä ja minä olen myös tulossa kun se on mahdollista",
    "french": "Les abeilles trouvent leur chemin grâce au soleil et à ce qu'elles ont vu sur la route vers les fleurs",
    "german": "Die Bienen finden den Weg nach Hause mit der Sonne und durch das, was sie auf dem Weg gesehen haben",
    "greek": "Οι μέλισσες βρίσκουν τον δρόμο για το σπίτι με τον ήλιο και με αυτά που είδαν στον δρόμο προς τα λουλούδια",
    "hungarian": "A ház ajtaja nyitva volt, amikor megérkeztünk, és nem tudjuk, hogy miért hagyta így az ember, aki ott lakik",
    "italian": "Le api trovano la strada di casa con il sole e con quello che hanno visto sulla via per i fiori",
    "norwegian": "Hun ble nødt til å se etter noe annet, men hva som skal bli av ham nå, vet vi ikke fra dem",
    "portuguese": "As abelhas não encontram o caminho para casa sem o sol e com aquilo que elas viram no caminho das flores",
    "romanian": "Albinele nu găsesc drumul spre casă fără soare și cu ceea ce au văzut pe drum când sunt la flori în luna mai",
    "russian": "Пчёлы находят дорогу домой по солнцу и по тому, что они видели на пути, и это не всё, что мы о них знаем",
    "spanish": "Las abejas encuentran el camino a casa con el sol y con lo que vieron por el camino, pero no siempre es así",
    "swedish": "Bina hittar vägen hem med solen och med det som de har sett på vägen, men vi vet inte hur det är för dem",
    "turkish": "Arılar eve giden yolu güneş ile bulur ve bu yol için daha önce gördükleri her şey çok önemli ama kolay değil",
    "polish": "Pszczoły nie znajdują drogi do domu bez słońca i to jest ważne, ale nie wiemy, czy są przez to mądre",
}  # fmt: skip


@pytest.mark.parametrize("language", TEXTS)
def test_languages_are_recognised_by_their_small_words(language):
    expected = "none" if language == "polish" else language
    assert recognised_language([TEXTS[language]] * 3) == expected
    index = LexicalIndex.build([TEXTS[language]] * 3, LexicalSettings())
    assert index.settings.language == expected


@pytest.mark.parametrize(
    "texts",
    [[], [""], ["12 34"], ["progress bar", "http client"], ["蜂は踊る"], [TEXTS["german"], TEXTS["english"]], ["el la en"]],
)  # fmt: skip
def test_nothing_is_guessed_where_no_language_stands_out(texts):
    assert recognised_language(texts) == "none"


def test_small_words_of_a_language_carry_no_weight():
    texts = ["Wie man eine Datei löscht", "Ich und ich und wie ich eine Reise plante", "Die Datei ist leer"]
    assert found(texts, "Wie lösche ich eine Datei?", "german") == [texts[0], texts[2]]


SWITCHES = [
    # rule, asked, what is found with it, and not found without it
    ("marks", "malaga", "Málaga"),
    ("marks", "елка", "ёлка"),
    ("marks", "Juarez", "Juárez"),
    ("marks", "كتاب", "كِتَاب"),
    ("letters", "مدرسه", "مدرسة"),
    ("letters", "فارسي", "فارسی"),
    ("letters", "कागज", "काग़ज़"),
    ("letters", "हिंदी", "हिन्दी"),
    ("letters", "2019", "٢٠١٩"),
    ("letters", "२०१९", "2019"),
    ("hyphens", "email", "an e-mail came"),
    ("hyphens", "Beispiel", "ein Bei-\nspiel"),
    ("abbreviations", "pdf", "PDFs"),
    ("abbreviations", "PDF", "the PDFs'"),
    ("single", "C", "vitamin C"),
    ("single", "猫", "两只猫睡"),
    ("single", "犬", "白い犬が走る"),
    ("particles", "물", "물은"),
    ("particles", "nasa", "NASA가"),
    ("particles", "책에", "책은"),
    ("syllables", "도서관", "중앙도서관"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "asked", "written"), SWITCHES)
def test_a_rule_is_what_finds_a_word_and_has_a_switch(rule, asked, written):
    others = [name for name in SWITCHED if name != rule]

    def is_found(without):
        index = LexicalIndex.build([*FILLER, written], LexicalSettings(language="none", without_rules=without))
        (hits,) = index.search([asked], 4)
        return 3 in hits.rows.tolist()

    assert is_found(())
    assert not is_found([rule])
    assert is_found(others)


def test_names_with_signs_come_first_unless_that_is_switched_off():
    texts = ["C in the C of C", "written in C++ since"]
    for without, best in (((), 1), (["signs"], 0)):
        index = LexicalIndex.build(texts, LexicalSettings(language="none", without_rules=without))
        (hits,) = index.search(["C++"], 1)
        assert hits.rows.tolist() == [best]


def test_every_rule_has_a_test_and_a_switch_or_none():
    assert {rule for rule, _, _ in SWITCHES} | {"signs"} == {*SWITCHED}
    assert {rule.switch for rule in RULES} == {"", "--without-rules", "--language none", "--prefix", "--exact"}


def test_an_index_remembers_the_rules_that_it_is_without_and_grows_by_them():
    settings = LexicalSettings(language="none", without_rules=["marks", "hyphens"])
    index = LexicalIndex.load(dict(LexicalIndex.build(["Málaga e-mail"], settings).files()))
    assert index.settings.without_rules == ("marks", "hyphens")
    grown = index.updated(np.array([0, -1]), ["the Zürich e-mail"], [])
    assert [len(hits) for hits in grown.search(["malaga", "zurich", "email", "Málaga"], 2)] == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("word", "noun"),
    [
        ("부산은", "부산"),
        ("부산는", "부산는"),
        ("호수는", "호수"),
        ("호수은", "호수은"),
        ("서울로", "서울"),
        ("부산로", "부산로"),
        ("사과", "사과"),
        ("나이", "나이"),
        ("학교에서는", "학교"),
        ("물의", "물"),
        ("의", "의"),
        ("nasa가", "nasa"),
        ("nasa이", "nasa"),
        ("학생들이", "학생들"),
        ("집까지", "집"),
        ("바다", "바다"),
        ("2019년에", "2019년"),
    ],
)
def test_particles_follow_the_sound_before_them(word, noun):
    assert word[: without_particle(word)] == noun


@pytest.mark.parametrize(
    ("asked", "language", "left"),
    [
        ("how a ship knows where it is", "english", "ship knows"),
        ("How does a ship know where it is?", "english", "ship know"),
        ("What\u2019s the time", "none", "time"),
        ("how a ship knows where it is", "none", "ship knows"),
        ("wie weiß ein Schiff wo es ist", "none", "weiß Schiff"),
        ("comment un navire sait où il est", "none", "navire sait"),
        ("what is a can bus", "english", "can bus"),  # a word with another sense
        ("what the WHO said", "english", "WHO said"),
        ("WHAT THE WHO SAID", "english", "SAID"),
        # no question, or too short
        ("some aspects of the law of the sea", "english", "some aspects of the law of the sea"),
        ("who vaccines", "english", "who vaccines"),
        ("die hard harder", "none", "die hard harder"),
        ("the who", "none", "the who"),
        ("小提琴 和 钢琴", "none", "小提琴 和 钢琴"),
    ],
)
def test_small_words_of_a_question(asked, language, left):
    small = small_in_question(asked.split(), language)
    assert " ".join(word for word in asked.split() if word not in small) == left
