"""The table of two servers: medians, and a ratio that is above 1 where the stock server is better."""

from bench.stock_and_wheel import table


def test_a_larger_rate_and_a_shorter_time_are_better() -> None:
    found = {
        "drain, jobs/s": {"stock": [90.0, 100.0, 5.0], "wheel": [45.0]},
        "page p95, ms": {"stock": [20.0], "wheel": [10.0]},
    }
    assert table(found).splitlines()[2:] == [
        "| drain, jobs/s | 90.00 | 45.00 | 2.00 × |",
        "| page p95, ms | 20.00 | 10.00 | 0.50 × |",
    ]
