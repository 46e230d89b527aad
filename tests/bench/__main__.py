"""`python -m tests.bench`: every benchmark, or those named, as `python -m tests.bench gateway`."""

import sys
from collections.abc import Callable
from typing import Final

from tests.bench import (
    bench_again,
    bench_aged,
    bench_aggregator,
    bench_answers,
    bench_backfill,
    bench_blocks,
    bench_bytes,
    bench_console,
    bench_crowd,
    bench_delivery,
    bench_exactness,
    bench_fresh,
    bench_gateway,
    bench_groups,
    bench_idle,
    bench_materialize,
    bench_metrics,
    bench_moved,
    bench_partitions,
    bench_reads,
    bench_seen,
    bench_sick,
    bench_steady,
    bench_tenants,
    bench_traces,
    bench_year,
)

BENCHES: Final[dict[str, Callable[[], None]]] = {
    "gateway": bench_gateway.main,
    "aggregator": bench_aggregator.main,
    "exactness": bench_exactness.main,
    "materialize": bench_materialize.main,
    "metrics": bench_metrics.main,
    "traces": bench_traces.main,
    "moved": bench_moved.main,
    "groups": bench_groups.main,
    "answers": bench_answers.main,
    "crowd": bench_crowd.main,
    "fresh": bench_fresh.main,
    "blocks": bench_blocks.main,
    "bytes": bench_bytes.main,
    "console": bench_console.main,
    "reads": bench_reads.main,
    "again": bench_again.main,
    "delivery": bench_delivery.main,
    "seen": bench_seen.main,
    "sick": bench_sick.main,
    "year": bench_year.main,
    "idle": bench_idle.main,
    "aged": bench_aged.main,
    "backfill": bench_backfill.main,
    "steady": bench_steady.main,
    "tenants": bench_tenants.main,
    "partitions": bench_partitions.main,
}


def main() -> None:
    """Run them; each prints its figures."""
    names = sys.argv[1:] or list(BENCHES)
    for name in names:
        if name not in BENCHES:
            sys.exit(f"there is no benchmark {name!r}; there are: {', '.join(BENCHES)}")
        BENCHES[name]()


if __name__ == "__main__":
    main()
