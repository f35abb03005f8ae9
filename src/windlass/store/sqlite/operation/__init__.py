"""One operation under the write lock, as it changes things in memory before it writes them: `transaction`,
and the lanes and budgets that it has loaded."""
