"""Proofs of who one is: what a provider or MUNGE says becomes a user of this machine."""

from xce.apiserver.identity import Caller, Identities
from xce.apiserver.munge import Munge, MungeError
from xce.apiserver.oidc import OidcError, OidcProvider
from xce.apiserver.tokens import Tokens
from xce.model.api import ApiConfig, OidcConfig
from xce.model.errors import XceError


class LoginError(XceError):
    """Somebody has not proven who he is; ``user`` is who he says he is, if he does."""

    def __init__(self, text: str, *, user: str = "") -> None:
        super().__init__(text)
        self.user = user


class Logins:
    """What is needed to let users log in.

    Args:
        tokens: Writes tokens.
        identities: Who is who.
    """

    def __init__(self, tokens: Tokens, identities: Identities) -> None:
        self.tokens = tokens
        self._identities = identities
        self._provider: OidcProvider | None = None
        self._munge: Munge | None = None

    def provider(self, config: OidcConfig) -> OidcProvider:
        """Return the provider that the configuration names."""
        if self._provider is None or self._provider.config != config:
            self._provider = OidcProvider(config)
        return self._provider

    def prove_munge(self, api: ApiConfig, credential: str, audience: str) -> Caller:
        """Return whose credential it is, made for ``audience``.

        Raises:
            LoginError: It does not count.
        """
        if not api.munge:
            raise LoginError("MUNGE is not configured here (api: munge in xce.yaml)")
        try:
            if self._munge is None:
                self._munge = Munge()
            found = self._munge.decode(credential)
        except MungeError as error:
            raise LoginError(str(error)) from error
        if found.payload != audience.encode():
            raise LoginError("the MUNGE credential was made for something else")
        if found.uid == 0:
            raise LoginError("root does not log in by MUNGE: any host's root could", user="root")
        return self._identities.caller(found.uid, found.gid)

    async def prove_oidc(
        self, api: ApiConfig, *, code: str, verifier: str, nonce: str, redirect_uri: str
    ) -> tuple[Caller, tuple[str, ...]]:
        """Return who has logged in at the provider, and his groups there.

        Raises:
            LoginError: Nobody has, or he has no account here.
        """
        if api.oidc is None:
            raise LoginError("OIDC is not configured here (api: oidc in xce.yaml)")
        if len(verifier) < 43 or len(nonce) < 16 or not code:
            raise LoginError("code, verifier (43 characters) and nonce (16) are needed")
        try:
            person = await self.provider(api.oidc).log_in(code, verifier, nonce, redirect_uri)
        except OidcError as error:
            raise LoginError(str(error)) from error
        found = self._identities.account(person.user)
        if found is None:
            raise LoginError(f"{person.user} has no account on this machine", user=person.user)
        if found.owner.uid == 0:
            raise LoginError("root does not log in by OIDC", user=person.user)
        return found, person.groups
