"""The verbs that take a store elsewhere: backup and copy."""
