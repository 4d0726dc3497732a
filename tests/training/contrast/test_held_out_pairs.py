"""What a training is validated on."""

from pathlib import Path

from tests.training.contrast.pair_texts import made_text
from wordpipe.training.contrastive import held_out_pairs
from wordpipe.training.contrastive.settings import ContrastiveSettings


def test_neighbours_of_several_held_out_documents(tmp_path: Path) -> None:
    sentences = [[1, 2], [3, 4], [5, 6]]
    for held_out, there in ((1, False), (3, False), (4, True)):
        documents = [(f"d{i}", "valid" if i < held_out else "train", sentences) for i in range(10)]
        found = held_out_pairs(ContrastiveSettings(), made_text(tmp_path / str(held_out), documents))
        assert (found is not None) == there
    assert found is not None
    assert len(set(found.batch(0).document.tolist())) == 4
