"""The page of `wordpipe serve`: the HTML of `/`, of `/text/ID`, of `/api` and of what is refused, and its files."""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.web.page.static_files import StaticFile, static
    from wordpipe.web.page.views import api, being_made, home, reading, refused
else:
    __getattr__, __dir__ = face(__name__, __file__)
