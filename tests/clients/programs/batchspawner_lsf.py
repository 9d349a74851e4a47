"""batchspawner: JupyterHub's server of a user is a batch job, found on its host, and ended."""

import asyncio
import os
import pwd
import sys
from pathlib import Path
from types import SimpleNamespace

from batchspawner import LsfSpawner
from jupyterhub.objects import Hub, Server
from jupyterhub.orm import Base, User
from sqlalchemy import create_engine
from sqlalchemy.orm import Session


async def run() -> None:
    name = pwd.getpwuid(os.getuid()).pw_name
    engine = create_engine("sqlite:///:memory:")
    Base.metadata.create_all(engine)
    with Session(engine) as database:
        person = User(name=name)
        database.add(person)
        database.commit()
        user = SimpleNamespace(
            name=name, id=1, url="/user/x", settings={}, escaped_name=name, db=database,
            orm_user=person, spawners={}, proxy_spec="/", server=None,
        )  # fmt: skip
        spawner = LsfSpawner(
            user=user,
            hub=Hub(),
            exec_prefix="",
            env_keep=["PATH"],
            req_queue="normal",
            req_homedir=str(Path.cwd()),
            cmd=["sleep", "120"],
            startup_poll_interval=0.5,
            db=database,
        )
        spawner.server = Server(ip="127.0.0.1", port=12345)
        spawner.mock_port = 12345
        script = await spawner.submit_batch_script()
        print("submitted", script.isdigit())
        while await spawner.query_job_status() and not spawner.state_isrunning():  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        print("host", spawner.state_gethost())
        print("poll", await spawner.poll())
        await spawner.stop()
        print("after", await spawner.poll())


if __name__ == "__main__":
    sys.exit(asyncio.run(run()))
