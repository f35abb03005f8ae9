"""The TLA+ models: each right one holds, each broken one fails, and the page that explains them is true."""
