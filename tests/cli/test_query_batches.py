import subprocess
import sys
from itertools import cycle

import pytest

from wordpipe.cli.query import batches


@pytest.mark.parametrize("count", [0, 1, 7, 20])
@pytest.mark.parametrize("pattern", [[True], [False], [True, False, True]])
def test_no_line_is_lost_or_moved(count, pattern):
    lines, answers = [f"line {number}" for number in range(count)], cycle(pattern)
    found = list(batches(iter(lines), 3, lambda: next(answers)))
    assert [line for some in found for line in some] == lines
    assert all(0 < len(some) <= 3 for some in found)
    if pattern == [False]:
        assert all(len(some) == 1 for some in found)


def test_a_shell_gets_its_answer_before_it_asks_on(built):
    """The command keeps running as a coprocess."""
    command = [sys.executable, "-m", "wordpipe", "query", str(built / "words"), "-k", "1", "--json", "-q"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as asked:
        assert asked.stdin is not None
        assert asked.stdout is not None
        for word in ("water", "salt"):
            asked.stdin.write(f"{word}\n")
            asked.stdin.flush()
            assert f'"query": "{word}"' in asked.stdout.readline()
            assert asked.stdout.readline() == f'{{"query": "{word}", "hits": 1}}\n'
        asked.stdin.write("qxqxqx\n")
        asked.stdin.flush()
        assert asked.stdout.readline() == '{"query": "qxqxqx", "hits": 0}\n'
        asked.stdin.close()
        assert asked.wait(20) == 0
