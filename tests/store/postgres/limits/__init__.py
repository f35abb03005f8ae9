"""Gates, budgets, admission and cool-downs under concurrency."""
