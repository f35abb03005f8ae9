"""The app itself: every way to make a job, settings, codecs, and the words that people write."""
