"""What a world is like: all drawn from its seed."""

import random
from dataclasses import dataclass, replace
from typing import Any, Final

from meterline.limits import OPEN_SLICES_BYTES_MIN
from tests.simulation.fates import Rates

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
LONG_HORIZON_MS: Final = 35 * 24 * HOUR_MS


# Nobody dies and no meter changes, so no slice is read again; but what was written comes once more,
# and late, to cells that go on changing.
STEADY: Final[dict[str, Any]] = {
    "rates": Rates(0, 0, 0, late=60, half=0, slow=0, zombie=0, twice=80),
    "meters_change_s": 60.0,
    "workers_die_s": 60.0,
    "hour_zombies_s": 60.0,
    "outages_s": 60.0,
    "flush_interval_ms": 50,
    "spread_ms": 2_000,
    "jump_ms_max": 2_000,
}


# The usage store is lost in the middle and comes back. Drawn for no other world: what a seed means
# would change.
LOST: Final[dict[str, Any]] = {
    "usage_lost": True,
    "wild_clocks": False,
    "log_restored": False,
    "replicas_lag": False,
    "lossy": 0.0,
    "expire_ms": 0,
    "dispatchers": 2,
    "inbox_readers": 0,
    "rates": Rates(crash=1),  # something must be sealed before it can be lost
    "workers_die_s": 20.0,
    "hour_zombies_s": 60.0,
    "outages_s": 60.0,
}


# Subjects are erased. Drawn for no other world, either. Records are kept for longer than anybody
# stands still here, as in every world that is not this one.
ERASING: Final[dict[str, Any]] = {
    "erases_s": 3.0,
    "jump_ms_max": 1_500_000,  # slices must end, or nothing is erased
    "log_restored": False,
    "expire_ms": 0,
    "retention_ms": 7 * 24 * HOUR_MS,
    "dispatchers": 0,
}


# Meters change all the time, and what ended is dropped at once. Drawn for no other world either.
DROPS: Final[dict[str, Any]] = {
    "drops_revisions": True,
    "meters_change_s": 0.7,
    "jump_ms_max": 400_000,
    "log_restored": False,
    "expire_ms": 0,
}


# The store loses rows of slices that are sealed already, and several count each of them back. Drawn
# for no other world either.
DECAYING: Final[dict[str, Any]] = {
    "decays": True,
    "faust": False,
    "workers": 3,
    "jump_ms_max": 1_500_000,
    "retention_ms": 7 * 24 * HOUR_MS,
    "dispatchers": 0,
    "replicas_lag": False,
    "log_restored": False,
    "lossy": 0.0,
    "expire_ms": 0,
}


# Usage by minute is dropped soon after its hour is in blocks. Drawn for no other world either. Runs
# are corrected for as long as minutes are kept at least, which here is no time: nobody makes any.
MINUTES: Final[dict[str, Any]] = {
    "drops_minutes": True,
    "meters_change_s": 3.0,
    "jump_ms_max": HOUR_MS,
    "spread_ms": 2 * HOUR_MS,
    "log_restored": False,
    "expire_ms": 0,
    "retention_ms": 7 * 24 * HOUR_MS,
    "dispatchers": 0,
}


# The log gets more partitions. Drawn for no other world either.
GROWING: Final[dict[str, Any]] = {
    "grows": 2,
    "log_restored": False,
    "expire_ms": 0,
    "lossy": 0.0,
    "hour_zombies_s": 60.0,
    "retention_ms": 7 * 24 * HOUR_MS,
}
# One that loses its store, too, has few of them, or it takes long to come to rest.
FEW: Final[dict[str, Any]] = {"partitions": 1, "grows": 3}

# Open slices of a few events have all the memory that they may: partitions take turns. Drawn for no
# other world either.
NARROW: Final[dict[str, Any]] = {"open_bytes": 3_000}


@dataclass(frozen=True, slots=True)
class Profile:
    """Who lives in a world and how rough it is."""

    partitions: int
    faust: bool  # workers are driven by a consumer group, else each polls every partition
    workers: int
    gateways: int
    senders: int
    dispatchers: int
    inbox_readers: int
    events: int  # of each sender
    horizon_ms: int
    retention_ms: int
    expire_ms: int  # the log drops what is older, counted or not; 0: never
    flush_events: int
    flush_interval_ms: int
    rates: Rates
    gaps: bool  # between offsets
    lags: bool  # a read may bring fewer records than there are
    clock_wobble_ms: int  # append times may step back so far
    wild_clocks: bool  # clocks break the bound on their skew: claims mean nothing then
    meters_change_s: float  # how often, about; each change makes all open slices be read again
    workers_die_s: float
    jump_ms_max: int  # now and then so much time passes for everybody
    spread_ms: int  # how far events lie from the present
    hour_zombies_s: float  # how often, about, somebody stands still for an hour
    outages_s: float  # how often, about, a store is away for a while
    replicas_lag: bool  # what may be asked of a replica is of before
    log_restored: bool  # once, to an older state: counting must stop then
    lossy: float  # share of the flushes of which the store forgets rows: claims mean nothing then
    drops_revisions: bool = False  # those that ended; never drawn: see DROPS
    drops_minutes: bool = False  # usage by minute; never drawn: see MINUTES
    usage_lost: bool = False  # the whole store, once, and brought back; never drawn: see LOST
    erases_s: float = 0.0  # how often, about, a subject is to be erased; 0: never; see ERASING
    decays: bool = False  # the store loses rows of sealed slices; never drawn: see DECAYING
    grows: int = 0  # to so many times as many partitions, once; never drawn: see GROWING
    copies_take_s: float = 0.0  # how long, before rows of a subject are copied; never drawn
    open_bytes: int = OPEN_SLICES_BYTES_MIN  # of memory; never drawn: see NARROW


def drawn(rng: random.Random) -> Profile:
    """A profile."""
    wildness = rng.choice((0.3, 1.0, 1.0, 2.0))
    usual = Rates()
    names = ("crash", "refused", "lost", "late", "half", "slow", "zombie", "twice")
    chances = {n: int(getattr(usual, n) * wildness * rng.choice((0, 1, 1, 2))) for n in names}
    faust = rng.random() < 0.5
    profile = Profile(
        partitions=rng.randrange(1, 4),
        faust=faust,
        workers=rng.randrange(1, 4 if faust else 3),
        gateways=rng.randrange(1, 4),
        inbox_readers=rng.choice((0, 0, 0, 1, 2)),
        dispatchers=rng.choice((0, 0, 1, 3)),
        senders=rng.randrange(1, 4),
        events=rng.randrange(8, 36),
        horizon_ms=rng.choice((20 * MINUTE_MS, LONG_HORIZON_MS, LONG_HORIZON_MS)),
        retention_ms=rng.choice((0, 10 * MINUTE_MS, 7 * 24 * HOUR_MS)),
        expire_ms=0 if rng.random() < 0.85 else rng.choice((5, 60)) * MINUTE_MS,
        flush_events=rng.choice((3, 10, 20_000)),
        flush_interval_ms=rng.choice((50, 300, 1_000)),
        rates=Rates(**chances),
        gaps=rng.random() < 0.3,
        lags=rng.random() < 0.5,
        clock_wobble_ms=rng.choice((0, 0, 2_000, 10 * MINUTE_MS)),
        wild_clocks=rng.random() < 0.1,
        meters_change_s=rng.choice((1.0, 2.0, 3.0, 20.0)),
        workers_die_s=rng.choice((2.0, 4.0, 20.0)),
        jump_ms_max=rng.choice((2_000, 60_000, 400_000, 1_500_000)),
        spread_ms=rng.choice((2_000, 60_000, 2 * HOUR_MS)),
        hour_zombies_s=rng.choice((4.0, 12.0, 60.0)),
        outages_s=rng.choice((3.0, 60.0, 60.0)),
        replicas_lag=rng.random() < 0.3,
        log_restored=rng.random() < 0.06,
        lossy=0.1 if rng.random() < 0.15 else 0.0,
    )
    if profile.expire_ms:  # an hour is longer than that: nothing would be left to be looked at
        profile = replace(profile, hour_zombies_s=60.0)
    return replace(profile, **STEADY) if rng.random() < 0.12 else profile
