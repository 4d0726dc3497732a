"""Engines: what makes the shards of a stage, on this machine or on several.

A stage that can be parted describes its work as a `ShardWork`: a pure function of its inputs, its settings and the number of a
shard, which leaves its result in files. `open_engine` gives an engine that runs it: `local` one shard after the other with
the threads of this process, `ray` many at a time in the processes of a Ray cluster. The files are the same, so nothing that is
made says which engine made it. `work_together` starts processes that work at the same time and meet each other: trainings.
`CopiedProcess` is a copy of this process that works beside it.
"""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.engines.copied import CopiedProcess
    from wordpipe.engines.options import EngineName, EngineOptions, open_engine
    from wordpipe.engines.shard_work import Engine, OnUnits, ShardProgress, ShardWork
    from wordpipe.engines.together import work_together
else:
    __getattr__, __dir__ = face(__name__, __file__)
