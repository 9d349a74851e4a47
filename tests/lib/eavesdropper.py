"""Somebody in the middle who hears what is said."""

import asyncio

from xce.model.address import Address


class Recorder:
    """Stands between two ends and keeps what the client says."""

    def __init__(self, target):
        self.target = target
        self.said = bytearray()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.relay, "127.0.0.1", 0)
        self.address = Address(*self.server.sockets[0].getsockname()[:2])
        return self

    async def __aexit__(self, *_):
        self.server.close()
        await asyncio.sleep(0.05)

    async def relay(self, reader, writer):
        far_reader, far_writer = await asyncio.open_connection(*self.target)

        async def back():
            while data := await far_reader.read(65536):
                writer.write(data)

        task = asyncio.create_task(back())
        while data := await reader.read(65536):
            self.said += data
            far_writer.write(data)
        far_writer.close()
        await asyncio.wait({task})
        writer.close()
