"""The apiserver's door to the network: its certificate, its secret, and listening as configured."""

import asyncio
import contextlib
import hashlib
import secrets
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from logging import Logger
from pathlib import Path
from typing import Final, NamedTuple

from aiohttp import web

from xce.apiserver.app import make_server
from xce.apiserver.backend import Backend
from xce.apiserver.door import Door
from xce.apiserver.tokens import KEY_BYTES
from xce.daemon.key_files import KeyFileError, store_file
from xce.model.address import Address, parse_address
from xce.model.api import ApiConfig
from xce.model.errors import XceError

TOKEN_KEY: Final = "tokens.secret"
CERTIFICATE: Final = "api-tls.pem"
PRIVATE_KEY: Final = "api-tls.secret"
CERTIFICATE_DAYS: Final = 825
RENEW_DAYS: Final = 60
HANDSHAKE_S: Final = 10.0
BACKLOG: Final = 512
LOOK_S: Final = 1.0


class DoorError(XceError):
    """The apiserver cannot listen on the network."""


class Files(NamedTuple):
    """A certificate chain and its private key."""

    certificate: Path
    key: Path


def load_token_key(keys: Path) -> bytes:
    """Return the secret with which tokens are signed; it is made where there is none.

    Raises:
        DoorError: It cannot be read or written.
    """
    path = keys / TOKEN_KEY
    try:
        if not path.exists():
            store_file(path, secrets.token_bytes(KEY_BYTES))
        found = path.read_bytes()
    except OSError as error:
        raise DoorError(f"{path}: {error.strerror}") from error
    if len(found) < KEY_BYTES:
        raise DoorError(f"{path} is damaged: remove it, and every login ends")
    return found


def make_certificate(keys: Path, address: Address, host: str, now: datetime) -> Files:
    """Return the self-made certificate; made anew where it is missing or about to end.

    Raises:
        DoorError: It cannot be written.
    """
    # Only who makes a certificate needs the library.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    files = Files(keys / CERTIFICATE, keys / PRIVATE_KEY)
    if files.certificate.exists() and files.key.exists():
        found = x509.load_pem_x509_certificate(files.certificate.read_bytes())
        if found.not_valid_after_utc > now + timedelta(days=RENEW_DAYS):
            return files
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])])
    names: list[x509.GeneralName] = [
        x509.DNSName(text) for text in dict.fromkeys((host, "localhost"))
    ]
    names += [x509.IPAddress(item) for item in _addresses(address)]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=CERTIFICATE_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(private, hashes.SHA256())
    )
    try:
        store_file(
            files.key,
            private.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )
        store_file(files.certificate, certificate.public_bytes(serialization.Encoding.PEM))
    except (OSError, KeyFileError) as error:
        raise DoorError(f"{keys}: {error}") from error
    return files


def _addresses(address: Address) -> list[IPv4Address | IPv6Address]:
    """Return the IP addresses that the certificate is for: loopback, and where it listens."""
    found = [ip_address("127.0.0.1"), ip_address("::1")]
    with contextlib.suppress(ValueError):
        given = ip_address(address.host)
        if not (given.is_unspecified or given in found):
            found.append(given)
    return found


def server_context(files: Files) -> ssl.SSLContext:
    """Return the settings of TLS: version 1.3 only.

    Raises:
        DoorError: Certificate or key cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(files.certificate, files.key)
    except (OSError, ssl.SSLError) as error:
        raise DoorError(f"{files.certificate}, {files.key}: {error}") from error
    return context


def fingerprint_of(files: Files) -> str:
    """Return SHA-256 of the first certificate of a chain, in hexadecimal digits.

    Raises:
        DoorError: It cannot be read.
    """
    try:
        text = files.certificate.read_text(encoding="ascii")
        end = text.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----")
        der = ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE-----") : end])
    except (OSError, ValueError) as error:
        raise DoorError(f"{files.certificate}: no certificate can be read") from error
    return hashlib.sha256(der).hexdigest()


class ApiDoor:
    """Listens on the network as long and where the configuration says so.

    Args:
        backend: What is served.
        keys: The directory of this machine's secrets.
        log: Where it is told.
        host: The name of this machine.
    """

    def __init__(self, backend: Backend, keys: Path, log: Logger, *, host: str) -> None:
        self._backend = backend
        self._keys = keys
        self._log = log
        self._host = host
        self._api = ApiConfig()
        self._server: asyncio.Server | None = None
        self._runner: web.ServerRunner | None = None

    async def run(self) -> None:
        """Open and close until cancelled; what cannot be opened is tried again and told once."""
        try:
            told = ""
            while True:
                wanted = self._backend.replica.state.config.api
                if self._backend.replica.is_whole and _door_of(wanted) != _door_of(self._api):
                    try:
                        await self.close()
                        if wanted.listen:
                            await self._open(wanted)
                        self._api, told = wanted, ""
                    except (DoorError, OSError) as error:
                        if str(error) != told:
                            told = str(error)
                            self._log.error("api-not-open", extra={"why": told})
                await asyncio.sleep(LOOK_S)
        finally:
            await self.close()

    async def _open(self, api: ApiConfig) -> None:
        address = parse_address(api.listen)
        if api.cert:
            files = Files(Path(api.cert), Path(api.key))
        else:
            files = make_certificate(self._keys, address, self._host, datetime.now(UTC))
        context, fingerprint = server_context(files), fingerprint_of(files)
        server = make_server(self._backend, is_guarded=True)
        runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await runner.setup()
        self._runner = runner
        self._server = await asyncio.get_running_loop().create_server(
            server,
            address.host,
            address.port,
            ssl=context,
            ssl_handshake_timeout=HANDSHAKE_S,
            backlog=BACKLOG,
        )
        name = self._host if _is_any(address.host) else address.host
        self._backend.door = Door(f"https://{Address(name, address.port)}", fingerprint)
        self._log.info(
            "api-open", extra={"url": self._backend.door.url, "fingerprint": fingerprint}
        )

    async def close(self) -> None:
        """Listen no more, and end what is connected."""
        self._backend.door = Door()
        self._api = ApiConfig()
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None


def _door_of(api: ApiConfig) -> tuple[str, str, str]:
    return api.listen, api.cert, api.key


def _is_any(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False
