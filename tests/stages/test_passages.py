"""The passage that answers best, and the query's words in it."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wordpipe
from wordpipe.search import Analyser
from wordpipe.stages import PassageFinder, best_passage, flowing_pieces

TEXT = (
    "The Moon pulls on the near side of the Earth. The ocean is stretched into two bulges. As the Earth turns, most coasts "
    "pass through both of them and see two high waters in a day. The Sun does the same with less effect. The shape of the "
    "coast does the rest: a bay can raise the range to fifteen metres."
)


def found(query, text, room, **more):
    passage = PassageFinder(query, Analyser("english")).passage(text, room, **more)
    return text[passage.start : passage.stop], [text[start:stop] for start, stop in passage.marks]


def test_the_stretch_with_the_rarest_and_most_words_is_found():
    passage, marks = found("why are there two high waters", TEXT, 90)
    assert "see two high waters" in passage
    assert marks == ["two", "high", "waters"]
    assert found("sun", TEXT, 60) == ("The Sun does the same with less effect. The shape of the", ["Sun"])
    assert found("nothing of this", TEXT, 30) == ("The Moon pulls on the near", [])
    assert found("bay", TEXT, 60) == ("The shape of the coast does the rest: a bay can raise the", ["bay"])
    assert found("fifteen", TEXT, 60)[0] == "does the rest: a bay can raise the range to fifteen metres."
    assert found("moon", TEXT, len(TEXT)) == (TEXT, ["Moon"])


def test_a_passage_of_code_keeps_the_indent_of_its_first_line():
    code = "def drain(queue):\n    while queue:\n        item = queue.pop()\n        handle(item)\n    return None\n"
    assert found("item", code, 60)[0] == "        item = queue.pop()\n        handle(item)\n    return"
    assert found("item", code, 40)[0].startswith("item = queue.pop()")  # the indent and what was found need more room
    prose = f"The first words of all of this story.\n    Then the tide\nrose again. {TEXT}"
    assert found("tide", prose, 40)[0].startswith("Then the tide\nrose")  # no code: nothing else is indented


def test_words_that_carried_the_vectors_find_a_passage_too():
    assert found("lunar", TEXT, 60, strongest={"metres": 0.4, "the": 0.9}) == (
        "does the rest: a bay can raise the range to fifteen metres.",
        ["metres"],
    )


def test_scripts_without_spaces_are_marked_in_runs():
    text = "蜂は花から花へ飛んで、蜜を集める。冬の蜂は巣の中で体を寄せ合う。"
    passage, marks = found("冬の蜂", text, 12)
    assert "冬の蜂" in passage
    assert marks == ["冬の蜂"]


@given(
    st.text(alphabet="ab .\n\t蜂蜜", max_size=40),
    st.lists(st.sampled_from(["aa", "ab", "bb", "蜂蜜"])),
    st.integers(1, 45),
)
def test_no_stretch_weighs_more(text, words, room):
    """Its twin looks at every stretch of the text."""
    weights = {word: 1.0 + number for number, word in enumerate(dict.fromkeys(words))}
    places = [place for place in Analyser("none").places(text) if place[2] in weights]
    passage = best_passage(text, places, weights, room)

    def weight(start, stop):
        inside = Counter(stem for one, end, stem in places if start <= one and end <= stop)
        return sum(weights[stem] * (2 - 2 ** (1 - count)) for stem, count in inside.items())

    assert 0 <= passage.start <= passage.stop <= len(text)
    assert passage.stop - passage.start <= room
    assert passage.stop > passage.start or not text
    best = max(weight(start, start + room) for start in range(len(text) + 1))
    assert weight(passage.start, passage.stop) == pytest.approx(best)
    ends = [passage.start - 1]
    for start, stop in passage.marks:
        assert ends[-1] < start < stop <= passage.stop
        ends.append(stop)


@given(st.text(), st.sampled_from(["english", "none"]))
def test_places_are_those_of_the_stems(text, language):
    analyser = Analyser(language)
    places = list(analyser.places(text))
    assert [stem for _, _, stem in places] == analyser(text)
    assert all(stem in analyser(text[start:stop]) for start, stop, stem in places if text[start:stop].isascii())


def test_an_index_gives_the_passages_of_its_hits(built):
    with wordpipe.open(built / "index") as index:
        (hit,) = index.query("high waters", 1, mode="lexical")
        passage = index.passages("high waters").passage(hit["text"], 80)
        marked = {hit["text"][start:stop].lower() for start, stop in passage.marks}
        assert marked
        assert marked <= {"high", "higher", "water", "waters"}
        assert index.passages("why high").words == {"whi": "why", "high": "high"}
        assert index.passages("qxqxq").marks(hit["text"]) == ()
    with wordpipe.open(built / "words") as words:
        assert words.passages("water").words == {"water": "water"}


PROSE = "The tide rises twice a day, as the moon pulls on the sea, and it falls\nas the shore turns away from the moon."


@pytest.mark.parametrize("before", ["", "- ebb\n- flood\n\n", "Of tides.\n\n"])
@pytest.mark.parametrize("room", [40, 75, 90, 1_000])
def test_a_passage_is_not_broken_where_a_margin_broke_its_text(before, room):
    text = f"{before}{PROSE}\n\n  ebb\n  flood"
    finder = PassageFinder("shore moon", Analyser("english"))
    found = finder.passage(text, room)
    shown = text.replace(PROSE, PROSE.replace("\n", " "))
    pieces = flowing_pieces(text, found.marks, found.start, found.stop)
    assert "".join(piece for piece, _ in pieces) == shown[found.start : found.stop]
    assert [piece for piece, is_marked in pieces if is_marked] == [text[start:stop] for start, stop in found.marks]
