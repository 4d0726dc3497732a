"""Pipelines: a config file as a list of stages.

`config` reads and checks it, `run` says what is stale and makes it, `project` writes the files of a new one, `slim` deletes
what only others were made of.
"""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.pipeline.config import CONFIG, Stage, place_of, text_in_keys
    from wordpipe.pipeline.project import WHY, WHY_IMPORTED, Project, init_project
    from wordpipe.pipeline.report import report_pipeline
    from wordpipe.pipeline.run import (
        Pipeline,
        StageStatus,
        State,
        pipeline_status,
        run_pipeline,
        settings_from_file,
        stage_from_file,
    )
    from wordpipe.pipeline.slim import Deletable, Slimmed, slim_pipeline
else:
    __getattr__, __dir__ = face(__name__, __file__)
