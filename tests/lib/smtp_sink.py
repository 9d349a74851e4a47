"""A mail server that keeps what it is given, and answers as a test wants it to."""

import asyncio
import contextlib
from typing import Self


class SmtpSink:
    """Takes messages on a free port of this machine.

    Attributes:
        messages: ``(sender, recipients, content)`` of what was taken.
        answers: By verb: the line that is answered in place of yes; ``DATA-END`` stands for the
            answer to a whole message. Empty: the connection is closed.
    """

    def __init__(self) -> None:
        self.messages: list[tuple[str, list[str], bytes]] = []
        self.answers: dict[str, str] = {}
        self.address = ""
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._talk(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 sink\r\n")
        sender, recipients = "", []
        while line := (await reader.readline()).decode().strip():
            verb = line.partition(" ")[0].upper()
            answer = self.answers.get(verb, "354 go on" if verb == "DATA" else "250 yes")
            if not answer:
                return
            if verb == "MAIL":
                sender, recipients = line.partition(":")[2].split()[0], []
            if verb == "RCPT" and answer.startswith("2"):
                recipients.append(line.partition(":")[2])
            writer.write(f"{answer}\r\n".encode())
            if verb == "DATA" and answer.startswith("3"):
                content = await reader.readuntil(b"\r\n.\r\n")
                answer = self.answers.get("DATA-END", "250 taken")
                if answer.startswith("2") or not answer:
                    self.messages.append((sender, recipients, content))
                if not answer:
                    return
                writer.write(f"{answer}\r\n".encode())
            if verb == "QUIT":
                return
