"""A training within a time: how much work fits, by the pace that is measured, and what is corrected when the pace changes.

The first pieces of work are not counted, since loops are compiled in them; the next ones are timed, and the work that fits
is planned. From then on the pace is looked at some twenty times. Where others use the machine too it flickers: it is that of
the last fifth of the time, roughly, and the plan is changed only where it no longer fits by far, or where much time would be
left over, so that a schedule of learning rates comes to its end. (By the last fiftieth and a twentieth too little, a minute
on a busy machine had 13 plans and used 91 % of the time; so it has 4, and uses 94 %.) Where time runs out all the same, the
work ends.
Work is whatever its owner counts: optimiser steps, words.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from wordpipe.errors import ConfigError

_UNCOUNTED = 2  # pieces of work before the pace is measured; 1 where that took a fiftieth of the time
_MEASURED, _MEASURED_SHARE = 3, 0.02  # pieces that are timed at least, unless they take a twentieth of the time
_LOOKS = 20  # at the pace, over the whole time
_MEMORY = 0.2  # share of the time after which a pace counts a third
_MARGIN, _END = 0.01, 0.4  # of the time, and seconds at least, that the plan leaves: a manifest, the end of a process
_SHORTER, _LONGER = 0.85, 1.3  # shares of the planned rest of the work; what lies between changes nothing
_LATE = 0.7  # share of the work after which no more is added: the learning rate would rise again
_NEWS = 0.05  # share of the work by which a plan differs from the one before, if people are told of it
_BYTES_A_SECOND = 2e8  # that a disk writes, until a checkpoint has shown it
_FEWEST = 20  # optimiser steps that teach anything

Finish = Literal["as it is", "cool-down"]
"""How a stopped run is ended: where it is, or after some more steps in which the learning rate falls to nothing."""

COOL_DOWN = 0.1  # of the steps that were made: how many more a cool-down takes


def now() -> float:
    """Return the seconds of the clock for trainings within a time."""
    return time.monotonic()


def shown_minutes(seconds: float) -> str:
    """Return a time in words, as minutes or seconds, for a pace.

    >>> shown_minutes(45), shown_minutes(90), shown_minutes(3600)
    ('45 seconds', '1.5 minutes', '60 minutes')
    """
    if seconds < 60:
        return f"{max(1, round(seconds))} second{'s' if round(seconds) > 1 else ''}"
    minutes = f"{seconds / 60:.1f}".removesuffix(".0")
    return f"{minutes} minute{'' if minutes == '1' else 's'}"


@dataclass
class TimeLimit:
    """The time of one training, and the work that is planned for this time.

    Attributes:
        seconds: that it may take, all that is done before and after it included.
        begun: when the command began, by `now`.
        most: work that is wanted at most; infinite: as much as fits.
        fewest: work that is worth anything.
        start: work that was done before the training began, by one that it extends.
        planned: the plans so far: work done when each was made, and the work in all.
        apart: the last length of each kind of work beside the training (validation, saving), in seconds.
    """

    seconds: float
    begun: float
    most: float = math.inf
    fewest: float = _FEWEST
    start: int = 0
    planned: list[tuple[int, int]] = field(default_factory=list)
    apart: dict[str, float] = field(default_factory=dict)
    _known: int | None = None  # the plan that people know of
    _before: float = 0.0  # seconds that runs before this one took
    _pieces: int = 0
    _mark: float = 0.0  # when the stretch that is timed began
    _done: float = 0.0  # the work then
    _apart: float = 0.0  # seconds of other work since then
    _looked: float = 0.0
    _took: float = 0.0  # seconds so far, those long ago for less
    _made: float = 0.0  # the work in them
    _pace: float = 0.0  # seconds of a unit of work

    @property
    def spent(self) -> float:
        """Return the seconds that the training took so far, over all runs."""
        return self._before + now() - self.begun

    @property
    def shown(self) -> str:
        """Return the time limit in words."""
        return shown_minutes(self.seconds)

    @property
    def total(self) -> int | None:
        """Return the total work that is planned; None before the first plan."""
        return self.planned[-1][1] if self.planned else None

    def share(self, parts: int) -> "TimeLimit":
        """Return the time limit of the first of some trainings (`parts`) that share the time that is left."""
        left = max(0.0, self.seconds - self.spent)
        return TimeLimit(self.spent + left / parts, self.begun, _before=self._before)

    def follow(self, part: "TimeLimit") -> None:
        """Take over the time of earlier runs from the time limit of a part of this training."""
        self.begun, self._before = part.begun, part._before

    def wanting(self, most: float, fewest: float = _FEWEST, start: int = 0) -> None:
        """Set the work of the training: at most, at least, and done before."""
        self.most, self.fewest, self.start = most, min(fewest, most - start), start

    def go_on(self, log: Mapping[str, Any]) -> None:
        """Continue the plan of a stopped run from its log: only its time and the time from now on count."""
        self.planned = [(int(done), int(total)) for done, total in log["planned"]]
        self._before, self.begun = float(log["spent"]), now()

    def log(self) -> dict[str, Any]:
        """Return the time and the plans that `go_on` needs to continue the run, as JSON values."""
        return {"spent": self.spent, "planned": self.planned}

    def facts(self, done: int) -> dict[str, Any]:
        """Return the facts about the pace for the manifest: minutes asked for, work planned first, work done."""
        first = self.planned[0][1] if self.planned else done
        return {
            "minutes": self.seconds / 60,
            "planned": first,
            "made": done,
            "corrections": max(0, len(self.planned) - 1),
        }

    def refuse_past(self) -> None:
        """Check before the first piece of work that there is time. Raises ConfigError: the time is over already."""
        if not self.planned and self.spent >= self.seconds:
            raise self._too_little(
                f"a time of {shown_minutes(self.spent)} passed before the training could begin", self.spent * 2
            )

    def is_news(self) -> bool:
        """True if the plan by the pace is news: the first plan, or one far from the plan that was last reported."""
        known, total = self._known, self.total
        if total is None or (known is not None and abs(total - known) <= _NEWS * known):
            return False
        self._known = total
        return True

    @contextmanager
    def beside(self, kind: str) -> Iterator[None]:
        """Time work beside the training, such as validation and saving, which does not count for the pace."""
        begun = now()
        try:
            yield
        finally:
            self.apart[kind] = now() - begun
            self._apart += self.apart[kind]

    def saving(self, size: int) -> float:
        """Return the seconds to save a checkpoint of a size in bytes: as the last time, or at the usual speed of a disk."""
        return self.apart.get("saving", size / _BYTES_A_SECOND)

    def replanned(
        self, done: int, *, closing: float = 0.0, between: float = 0.0, settle: Callable[[], None] = lambda: None
    ) -> int | None:
        """Return the total work if the plan is made or changed by the pace now, else None.

        To be called after each piece of work.

        Args:
            done: work so far.
            closing: seconds that are needed at the end, roughly, whenever it comes.
            between: seconds of other work until then.
            settle: waits until what was begun is done, where a device runs behind.

        Raises:
            ConfigError: there is no time for anything that would be worth it.
        """
        # the first pieces are not counted
        clock = now()
        self._pieces += 1
        if self._mark == 0.0:
            if self._pieces >= _UNCOUNTED or clock - self.begun > self.seconds / 50:
                settle()
                self._mark, self._done, self._apart = now(), done, 0.0
                self._looked = self._mark
            return None
        if self.planned and self.spent >= self.seconds - closing:  # time is up
            return self._plan(done, done) if self.planned[-1][1] > done else None
        if not self._is_due(clock, done):
            return None
        # the pace since the last look, and a mean in which what is long ago counts less
        settle()
        clock = now()
        took = max(clock - self._mark - self._apart, 1e-9)
        kept = math.exp(-took / (self.seconds * _MEMORY))
        self._took, self._made = self._took * kept + took, self._made * kept + max(done - self._done, 1e-9)
        self._pace = self._took / self._made
        self._mark, self._done, self._apart, self._looked = clock, done, 0.0, clock
        # the work that fits into what is left
        left = self.seconds - max(_MARGIN * self.seconds, _END) - closing - between - self.spent
        fits = max(0.0, left / self._pace)
        if not self.planned:
            return self._first_plan(done, fits, closing + between)
        # corrected only where the plan is far from it
        planned = self.planned[-1][1] - done
        is_known = self._took > self.seconds * _MEMORY / 2  # before, a pace says little
        too_much = fits < planned * _SHORTER and (planned - fits) * self._pace > self.seconds * _MARGIN / 2
        too_little = is_known and fits > planned * _LONGER and done < _LATE * self.planned[-1][1] < self.most
        if too_much or too_little:
            total = min(self.most, done + max(1.0, fits))
            return self._plan(done, int(total)) if int(total) != self.planned[-1][1] else None
        return None

    def _is_due(self, clock: float, done: float) -> bool:
        """True if it is time to measure the pace."""
        since = clock - self._mark - self._apart
        if not self.planned:
            enough = self._pieces - _UNCOUNTED >= _MEASURED and since >= self.seconds * _MEASURED_SHARE
            return done > self._done and (enough or since >= self.seconds / 20)
        between = min(self.seconds / _LOOKS, max(0.25, (self.seconds - self.spent) / 4))
        return done > self._done and clock - self._looked >= between

    def _first_plan(self, done: int, fits: float, closing: float) -> int:
        """Return the total work of the first plan by the pace. Raises ConfigError: too little time."""
        total = min(self.most, done + fits)
        if total - self.start < self.fewest:
            needed = self.spent + closing + (self.fewest + self.start - done) * self._pace
            raise self._too_little(
                f"{self.shown}, which is enough for {int(total - self.start):,} steps or words (at least "
                f"{int(self.fewest):,} are needed)",
                needed,
            )
        return self._plan(done, int(total))

    def _plan(self, done: int, total: int) -> int:
        """Add a plan: the work done, and the total."""
        self.planned.append((done, total))
        return total

    def _too_little(self, got: str, needed: float) -> ConfigError:
        """Return the error that the time is too short for the training, with the minutes that are needed."""
        least = math.ceil(needed * 1.1 / 6) / 10
        return ConfigError(
            "too little time for this training on this machine", where="minutes", got=got,
            expected=f"at least about {least:,g} minutes",
            hint=f"use --minutes {max(least, 2 * self.seconds / 60):.3g}, a smaller model, or less text",
        )  # fmt: skip
