"""Several served indexes that are asked as one, with one scale of scores, or, where there is none, mixed by rank.

They are opened a second time, beside the indexes that answer by themselves, as each of these belongs to a thread of its own:
when they are first asked together, and again when a newer version of one of them has been opened.
"""

from collections.abc import Sequence

from wordpipe.stages import OpenTextIndex, open_artifact, why_apart
from wordpipe.web.batching import Batcher
from wordpipe.web.replies import Refused
from wordpipe.web.served_artifacts import Generation, Served, ServedArtifacts, opened_warm

ALL = "*"
"""Stands for all indexes over texts, where no artifact has this name."""
_MOST = 4  # sets of indexes that stay open together


async def pick_several(artifacts: ServedArtifacts, names: Sequence[str], ability: str, seconds: float) -> Served:
    """Return what answers for the artifacts with some names: one of them, or indexes opened together.

    Args:
        artifacts: all that are served.
        names: of those that are asked.
        ability: what is asked.
        seconds: to wait until they are open.

    Raises:
        Refused: 404, there is none of a name; 400, one is no index over texts; 503, they are not open yet.
    """
    asked = _asked(artifacts, names, ability)
    if len(asked) == 1:
        return asked[0]
    for one in asked:
        if not isinstance(one.current.opened, OpenTextIndex):
            raise Refused(400, f"{one.name} is no index over texts, and only these can be searched together")
    # the set that is open, if all its indexes are still the current ones
    key, digests = tuple(one.name for one in asked), tuple(one.current.digest for one in asked)
    known = artifacts.together.get(key)
    if known is not None and known.current.stamp == digests:
        return known
    # else it is opened, once for all requests that wait for it
    first, look = asked[0].current, ("together", key, digests)
    try:
        made = await artifacts.made_once(first, look, lambda: _opened(asked, digests), seconds)
    except Refused:
        if known is None:
            raise
        return known  # answers with the versions of before, until the new ones are open
    first.looks.pop(look, None)  # the set is kept here, not with the first of its indexes
    return _kept(artifacts, key, made, asked)


def said_apart(artifacts: ServedArtifacts) -> str:
    """Return a line on indexes over texts that have no common scale of scores, for the owner; empty where all have one."""
    opened = {name: one.current.opened for name, one in artifacts.by_name.items()}
    texts = {name: one for name, one in opened.items() if isinstance(one, OpenTextIndex)}
    if len(texts) < 2 or not (why := why_apart([*texts.values()])):
        return ""
    return (
        f"the indexes {', '.join(texts)} cannot be searched as one index, because {why}; a search in all of the indexes "
        "asks each index by itself and mixes the answers by rank"
    )


def _asked(artifacts: ServedArtifacts, names: Sequence[str], ability: str) -> list[Served]:
    """Return the artifacts of some names, each once."""
    if ALL in names and ALL not in artifacts.by_name:
        found = [one for one in artifacts.by_name.values() if isinstance(one.current.opened, OpenTextIndex)]
        if found:
            return found
    return [artifacts.pick(name, ability) for name in dict.fromkeys(names)]


def _opened(asked: Sequence[Served], digests: tuple[str, ...]) -> Generation:
    """Open indexes as one, and read what the first request needs; for a thread."""
    return opened_warm(open_artifact([one.path for one in asked], "index", verify=False), digests)


def _kept(artifacts: ServedArtifacts, key: tuple[str, ...], made: Generation, asked: Sequence[Served]) -> Served:
    """Keep a set of indexes open: it replaces the same set in older versions; at most four sets stay open."""
    known = artifacts.together.pop(key, None)
    if known is None:
        name = " + ".join(key)
        known = Served(name, asked[0].path, made, Batcher(name), parts=key)
    elif known.current is not made:
        known.swap(made)
    while len(artifacts.together) >= _MOST:
        oldest = artifacts.together.pop(next(iter(artifacts.together)))
        oldest.batcher.stop()
        oldest.current.retire()
    artifacts.together[key] = known
    return known
