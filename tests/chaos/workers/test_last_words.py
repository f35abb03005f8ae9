"""A child that dies right after it has begun: its supervisor must still hear what it had begun, and must not
send heartbeats for it afterwards. The child here is a few lines of Python that say the word and end.
"""

import asyncio
import socket
import subprocess
import sys
import time

import pytest

from windlass.cluster.member import Member
from windlass.core.slots import MAX_SLOTS
from windlass.settings import Settings
from windlass.store.sqlite import SQLiteStore
from windlass.worker.processes.channel import Channel
from windlass.worker.processes.process import Process
from windlass.worker.reports.status_memory import StatusMemory

DIES = """
import os, socket, sys, time
end = socket.socket(fileno=int(sys.argv[1]))
sys.stdin.read()
end.sendall(b'{"type":"Began","worker":7}\\n')
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("busy", [0.0, 0.2])
async def test_what_a_dying_child_said_last_is_heard(busy: float) -> None:
    """Also by a supervisor that was busy with something else at that moment."""
    store = SQLiteStore(":memory:")
    member = Member(store, Settings(lease=2.0), {"work": 1})
    ours, theirs = socket.socketpair()
    with theirs:
        child = subprocess.Popen(  # noqa: ASYNC220 - starting it is quick
            [sys.executable, "-c", DIES, str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.PIPE,
        )
    process = Process(child, await Channel.over(ours), StatusMemory.make(MAX_SLOTS), member)
    listening = asyncio.create_task(process.listen(lambda: None))
    ending = asyncio.create_task(process.wait(listening))
    await asyncio.sleep(0)
    assert child.stdin is not None
    child.stdin.close()
    time.sleep(busy)  # noqa: ASYNC251 - the loop is busy while the child speaks and dies
    assert await ending == -9
    await listening
    assert process.workers == {7}
    assert not member._identities, "it still gets heartbeats"
    assert not process.can_run()
    process.status_memory.close()
