"""Jobs of several steps on real workers, which are killed, deployed anew and slept through [W1] [W2]."""
