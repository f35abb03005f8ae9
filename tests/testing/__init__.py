"""The kit that users get for their own tests."""
