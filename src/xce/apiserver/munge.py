"""MUNGE credentials, through libmunge: who a credential says its maker is. Optional."""

import ctypes
import ctypes.util
from typing import Final, NamedTuple

from xce.model.errors import XceError

CREDENTIAL_MAX: Final = 64 * 1024
_SUCCESS: Final = 0


class MungeError(XceError):
    """MUNGE is not there, or a credential does not count."""


class Credential(NamedTuple):
    """What a credential says."""

    uid: int
    gid: int
    payload: bytes


class Munge:
    """The library, once it is loaded.

    Args:
        path: The shared library; empty: where the system has it.

    Raises:
        MungeError: It is not installed.
    """

    def __init__(self, path: str = "") -> None:
        found = path or ctypes.util.find_library("munge")
        if not found:
            raise MungeError(
                "libmunge is not installed on this machine; install MUNGE, or remove 'munge: true' "
                "from api in xce.yaml"
            )
        try:
            library = ctypes.CDLL(found)
        except OSError as error:
            raise MungeError(f"libmunge cannot be loaded: {error}") from error
        self._decode = library.munge_decode
        self._decode.argtypes = [
            ctypes.c_char_p,
            ctypes.c_void_p,
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.POINTER(ctypes.c_int),
            ctypes.POINTER(ctypes.c_uint32),
            ctypes.POINTER(ctypes.c_uint32),
        ]
        self._encode = library.munge_encode
        self._encode.argtypes = [
            ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
        ]  # fmt: skip
        self._text = library.munge_strerror
        self._text.argtypes, self._text.restype = [ctypes.c_int], ctypes.c_char_p
        self._free = ctypes.CDLL(None).free
        self._free.argtypes = [ctypes.c_void_p]

    def decode(self, credential: str) -> Credential:
        """Return who made a credential, and what for. It counts once: munged remembers it.

        Raises:
            MungeError: It does not count, or munged does not run.
        """
        if len(credential) > CREDENTIAL_MAX or not credential.isascii() or "\0" in credential:
            raise MungeError("it is no MUNGE credential")
        content, size = ctypes.c_void_p(), ctypes.c_int()
        uid, gid = ctypes.c_uint32(), ctypes.c_uint32()
        status = self._decode(
            credential.encode(), None, ctypes.byref(content), ctypes.byref(size),
            ctypes.byref(uid), ctypes.byref(gid),
        )  # fmt: skip
        try:
            if status != _SUCCESS:
                raise MungeError(f"MUNGE: {self._why(status)}")
            payload = ctypes.string_at(content, size.value) if content.value else b""
            return Credential(uid.value, gid.value, payload)
        finally:
            if content.value:
                self._free(content)

    def encode(self, payload: bytes) -> str:
        """Return a credential of this process's user for ``payload``.

        Raises:
            MungeError: munged does not run.
        """
        made = ctypes.c_void_p()
        status = self._encode(ctypes.byref(made), None, payload, len(payload))
        try:
            if status != _SUCCESS or not made.value:
                raise MungeError(f"MUNGE: {self._why(status)}")
            return ctypes.string_at(made).decode("ascii")
        finally:
            if made.value:
                self._free(made)

    def _why(self, status: int) -> str:
        text = self._text(status)
        return text.decode("utf-8", "replace") if text else f"error {status}"
