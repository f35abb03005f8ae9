"""How a handler is called: on the loop, in a thread, in a process."""
