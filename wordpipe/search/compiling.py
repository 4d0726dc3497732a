"""Compiled loops for what stays open for many queries: loaded in a thread, while the first ones are answered."""

from threading import Thread

COMPILED_FROM = 50_000
"""Rows of a server, from which compiled loops are worth 0.5 s at its start and 120 MB: a hybrid question takes 2.4 ms of
processor time with them and 3.3 with NumPy at 100,000 texts, 2.4 and 2.6 at 20,000. From so many on, vectors and words are
also searched at the same time: to hand one over to another thread takes 0.1 ms, which few rows do not save."""


class MayCompile:
    """What has rows and loops over them, by NumPy at first."""

    def __len__(self) -> int:
        raise NotImplementedError

    def compile(self) -> None:
        """Load the compiled loops, and use them from now on."""
        raise NotImplementedError

    def compile_meanwhile(self) -> None:
        """Load compiled loops in a thread when the next query comes, which does not wait; not of few rows."""
        if len(self) >= COMPILED_FROM:
            self.__dict__["_compiler"] = Thread(target=self.compile, name="compile", daemon=True)

    def begin_compiling(self) -> None:
        """Start the thread, if there is one to start: called by every query."""
        if (thread := self.__dict__.pop("_compiler", None)) is not None:
            thread.start()
