"""What makes workers on many hosts one cluster. Speaks to the store protocol only.

A `member` stands for one host: it beats for its workers, steers them, and stands for `coordinator`. The
coordinator's `duties` are idempotent steps that anybody may also run by hand; `watch` tells the dead workers
from the living.
"""
