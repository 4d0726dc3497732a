"""`python -m wordpipe` is `wordpipe`."""

# built in, where `signal` takes milliseconds to import: an interrupt in them would show a traceback
import _signal  # type: ignore[import-not-found]

if __name__ == "__main__" and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import sys

from wordpipe.lazy import import_path

if __name__ == "__main__":  # `python -m` puts the working folder first, where the texts of others may lie
    sys.path[:] = import_path()

from wordpipe.cli import main

if __name__ == "__main__":
    main()
