"""[fault 30] [S3] `pg_upgrade` to another major version; jobs were waiting and running when all stopped."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.chaos.kit import Worker, depth_is_a_scan, fill, opened
from tests.postgres import HOST, Server
from windlass.errors import WorkerLost
from windlass.store.postgres import PostgresStore

TRUST = f"local all all trust\nhost all all {HOST}/32 trust\n"


def upgrade(old: Server, new: Server) -> None:
    """Both are stopped; the new one takes over the old one's databases."""
    user = new.data_dir.stat().st_uid
    folder = new.home / "upgrade"
    folder.mkdir(mode=0o700)
    os.chown(folder, user, -1)
    for server in (old, new):
        (server.data_dir / "pg_hba.conf").write_text(TRUST, encoding="ascii")
    run: list[list[str | Path]] = [
        [new.bin_dir / "pg_checksums", "--disable", "-D", new.data_dir],
        [new.bin_dir / "pg_upgrade", "-b", old.bin_dir, "-B", new.bin_dir, "-d", old.data_dir,
         "-D", new.data_dir, "-U", "postgres", "-s", folder, "-p", str(old.port), "-P", str(new.port)],
    ]  # fmt: skip
    for command in run:
        done = subprocess.run(command, cwd=folder, user=user, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.soak
async def test_a_store_goes_on_after_pg_upgrade() -> None:
    with Server(16, fsync=False) as old, Server(18, fsync=False) as new:
        name = old.create_database()
        await PostgresStore(old.dsn(name)).migrate()
        async with opened(old.dsn(name)) as store:
            worker = await Worker.registered(store)
            ids = await fill(store, 30)
            ended = await worker.claim(limit=5)
            await worker.finish(ended)
            held = await worker.claim(limit=5)
        old.stop()
        new.stop()
        upgrade(old, new)
        new.start()
        async with opened(new.dsn(name)) as store:
            worker.store = store
            with pytest.raises(WorkerLost):
                await worker.finish(held)
            fresh = await fill(store, 10)
            other = await Worker.registered(store)
            assert sorted(await other.drain()) == sorted({*ids, *fresh} - {job.id for job in ended})
            await depth_is_a_scan(store, new.dsn(name))
