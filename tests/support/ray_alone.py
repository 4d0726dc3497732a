"""Shards on a Ray of one's own, and where the processes of this user's machine listen meanwhile."""

import re
from pathlib import Path

from tests.support.shard_work import NumberShards


def listening() -> set[str]:
    """Local addresses with a port, as the kernel writes them."""
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                found.add(fields[1])
    return found


def main(folder: Path) -> None:
    """Make three shards; say whether all that listens since is on the loopback (127.0.0.1, or that in IPv6)."""
    from wordpipe.engines import EngineOptions, ShardProgress, open_engine
    from wordpipe.runtime import quiet

    before, work = listening(), NumberShards(folder)
    with open_engine(EngineOptions("ray", workers=2), quiet) as engine:
        engine.make(work, range(3), ShardProgress(work, quiet, 0, 6))
        new = listening() - before
    loopback = re.compile(r"0100007F:.*|0{16}FFFF00000100007F:.*|0{24}01000000:.*")
    other = sorted(one for one in new if not loopback.fullmatch(one))
    print("on the loopback alone" if new and not other else f"elsewhere: {other}")  # noqa: T201
