"""The server of `wordpipe serve`: artifacts opened once, asked over HTTP. Its libraries are the extra `serve`."""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.web.app import Application
    from wordpipe.web.assistants.stdin import answer_assistant
    from wordpipe.web.endpoints.facets import Facets
    from wordpipe.web.metrics import Metrics
    from wordpipe.web.replies import STATUSES
    from wordpipe.web.served_artifacts import ServedArtifacts
    from wordpipe.web.server import Server, need_libraries, serve
else:
    __getattr__, __dir__ = face(__name__, __file__)
