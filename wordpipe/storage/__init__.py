"""Storage: the objects of a bucket at `s3://bucket/key`, of any store that speaks S3.

`urls` knows names: a URL as a path, whether a path is one, what a name may hold; `buckets` reads, writes and lists objects by
obstore, with keys from the environment and errors that hold none. What an artifact looks like there is
known above, to `artifacts`.
"""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.storage.buckets import Bucket, Replaced, StoredObject, open_bucket
    from wordpipe.storage.urls import (
        Url,
        UrlPath,
        as_path,
        cache_folder,
        name_beside,
        other_scheme,
        parent_of,
        refuse_controls,
        standing,
        url_of,
    )
else:
    __getattr__, __dir__ = face(__name__, __file__)
