"""What jobs that go on where they stopped have behind them."""
