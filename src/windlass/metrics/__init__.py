"""Measures for machines: what `/metrics` says to Prometheus [M1].

    store ─▶ reading (one look, at most once a second) ─▶ catalog (every metric) ─▶ prometheus (text)

Everything is read from the store and holds for the whole cluster, so it does not matter which process is
asked, nor which workers live. The OpenTelemetry side is `windlass.contrib.otel`.
"""
