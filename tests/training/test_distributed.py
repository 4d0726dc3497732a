"""Several processes train one model: as one process would, and none of them is left waiting for one that is gone."""

import os
import signal
import socket
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load

from tests.support.small_trainings import settings_of, training
from wordpipe.errors import ConfigError
from wordpipe.training import World

ARGUMENTS = ["checkpoint_steps=4", "report_every=3", "eval_every=5"]
LONGER = [*ARGUMENTS, "steps=24", "dropout=0.2"]


def variables(size):
    """What torchrun tells each process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
    }
    return [common | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(size)]


def start(nursery, kind, folder, *arguments, size=2, failpoint="", call="main"):
    """The processes of one training; the failpoint is the first one's."""
    folder.mkdir(exist_ok=True)
    passed = [kind, str(folder / "state"), *arguments] if call == "main" else []
    return [
        nursery.train(
            *passed, log=folder / f"log{rank}", environment=each, failpoint=failpoint if rank == 0 else "", call=call
        )
        for rank, each in enumerate(variables(size))
    ]


def to_the_end(nursery, kind, folder, *arguments, size=2):
    """The hash of the weights, which all processes have."""
    children = start(nursery, kind, folder, *arguments, size=size)
    for child in children:
        assert child.wait() == 0, child.lines()
    hashes = {child.lines()[-1] for child in children}
    assert len(hashes) == 1
    assert hashes.copy().pop().startswith("weights")
    assert all(len(child.lines()) == 2 for child in children[1:])  # only the first one reports
    return hashes.pop()


def losses(folder):
    lines = [line.split() for line in (folder / "log0").read_text().splitlines() if line.startswith("step")]
    return [(split, int(step)) for _, step, split, _ in lines], [float(loss) for *_, loss in lines]


@pytest.fixture(scope="module")
def undisturbed(nursery, tmp_path_factory):
    return to_the_end(nursery, "mlm", tmp_path_factory.mktemp("two"), *LONGER)


@pytest.mark.landing
@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("mlm", (2,)),
        pytest.param("mlm", (4,), marks=pytest.mark.slow),
        pytest.param("clm", (2,), marks=pytest.mark.slow),
    ],
)
def test_several_processes_learn_what_one_does(nursery, kind, sizes, tmp_path):
    folders = {size: tmp_path / str(size) for size in (1, *sizes)}
    for size, folder in folders.items():
        to_the_end(nursery, kind, folder, "report_every=1", "clip=0.5", "label_smoothing=0.1", size=size)
    ends = {
        size: load((folder / "state/step-00000012/model.safetensors").read_bytes()) for size, folder in folders.items()
    }
    for size in sizes:
        assert losses(folders[size])[0] == losses(folders[1])[0]
        assert losses(folders[size])[1][:2] == pytest.approx(losses(folders[1])[1][:2], rel=1e-6)
        assert losses(folders[size])[1] == pytest.approx(losses(folders[1])[1], rel=1e-5)
        for name, weight in ends[1].items():
            # Muon computes in bfloat16, and AdamW's step has a gradient's sign, even where it is 0 but for rounding
            assert float((ends[size][name] - weight).norm()) < 2e-3 * float(weight.norm()), name


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_killed_and_resumed(nursery, killed, undisturbed, tmp_path):
    """Whichever dies, the other ends with a message, and together they go on to the same bytes."""
    children = start(nursery, "mlm", tmp_path, *LONGER)
    children[0].wait_for_reports(5)
    assert children[killed].kill() == -signal.SIGKILL
    assert children[1 - killed].wait() == 1
    assert "PeerError: the connection to the other processes" in "\n".join(children[1 - killed].lines()[-2:])
    assert to_the_end(nursery, "mlm", tmp_path, *LONGER) == undisturbed
    resumed = {child.lines()[0] for child in children}
    assert resumed == {(tmp_path / "log0").read_text().splitlines()[0]}
    assert int(resumed.pop().split()[2]) % 4 == 0


@pytest.mark.landing
@pytest.mark.parametrize("told", [0, 1])
def test_a_signal_to_one_stops_all_after_the_same_step(nursery, told, undisturbed, tmp_path):
    children = start(nursery, "mlm", tmp_path, *LONGER)
    children[0].wait_for_reports(3)
    assert children[told].kill(signal.SIGTERM) == 1
    assert children[1 - told].wait() == 1
    assert {child.lines()[-1] for child in children} == {"wordpipe.runtime.Stopped: stopped by SIGTERM"}
    saved = sorted((tmp_path / "state").glob("step-*"))[-1]
    assert to_the_end(nursery, "mlm", tmp_path, *LONGER) == undisturbed
    assert children[1].lines()[0] == f"resumed from {int(saved.name.removeprefix('step-'))}"


@pytest.mark.landing
@pytest.mark.parametrize("nth", [2, 23])
def test_if_the_first_cannot_save_the_others_hear_of_it(nursery, nth, tmp_path):
    """At its first checkpoint, and at its last, after which there is no step any more."""
    children = start(nursery, "mlm", tmp_path, *LONGER, failpoint=f"publish.file_written:enospc:{nth}")
    assert [child.wait() for child in children] == [1, 1]
    assert "No space left on device" in children[0].lines()[-1]
    assert "PeerError: another process of this training failed" in "\n".join(children[1].lines()[-2:])


def test_what_the_first_one_says_and_where_it_fails(nursery, tmp_path):
    children = start(nursery, "", tmp_path, call="fail_first")
    assert [child.wait() for child in children] == [1, 1]
    assert [child.lines()[0] for child in children] == ["shared {'from': 0}"] * 2
    assert children[0].lines()[-1] == "wordpipe.errors.InputError: there is no text for the training"
    assert (
        children[1]
        .lines()[-1]
        .endswith("the first process of this training failed; got there is no text for the training")
    )


@pytest.mark.landing
def test_another_number_of_processes_goes_on_and_says_so(nursery, tmp_path):
    children = start(nursery, "mlm", tmp_path, *LONGER)
    children[0].wait_for_reports(3)
    for child in children:
        child.kill()
    single = start(nursery, "mlm", tmp_path, *LONGER, size=1)[0]
    assert single.wait() == 0
    assert "processes 2 → 1" in single.lines()[0]


@pytest.mark.parametrize(
    ("values", "says"),
    [({"batch_size": 10}, "3 processes × micro-batch 1"), ({"batch_size": 9, "micro_batch": 2}, "micro-batch 2")],
)
def test_a_batch_that_cannot_be_shared_out(values, says, tmp_path):
    with pytest.raises(ConfigError, match="cannot be divided evenly") as caught:
        training(settings_of("mlm", **values), tmp_path, world=World(torch.device("cpu"), rank=0, size=3, local_size=3))
    assert says in caught.value.message


def test_alone_nothing_is_sent():
    world, tensor = World(torch.device("cpu")), torch.ones(3)
    assert (world.is_alone, world.leads, world.rows(8)) == (True, True, (0, 8))
    assert world.share({"a": 1}) == {"a": 1}
    assert world.agree(None) is None
    assert world.agree(15) == 15
    world.add_up(tensor)
    world.broadcast([tensor])
    world.fail()
    assert tensor.tolist() == [1, 1, 1]


def test_rows_are_shared_out_in_order():
    rows = [World(torch.device("cpu"), rank=rank, size=4).rows(12) for rank in range(4)]
    assert rows == [(0, 3), (3, 6), (6, 9), (9, 12)]


@pytest.mark.slow
def test_torchrun_starts_them(nursery, undisturbed, tmp_path):
    port = variables(1)[0]["MASTER_PORT"]
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", port, "-m",
         "tests.support.small_trainings", "mlm", str(tmp_path / "state"), *LONGER,
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=200, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("weights")] == [undisturbed] * 2
