"""What a handler sees, and what carries an app's calls to its store."""
