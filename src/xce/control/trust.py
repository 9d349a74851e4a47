"""Keys of components: `TrustKey`, `RevokeKeys`, `MakeHostToken` and `EnrolHost` to records."""

import re
from typing import Final, TypeAlias

from xce.model.certificate import FINGERPRINT_CHARACTERS, parse_certificate
from xce.model.command import Accepted, EnrolHost, MakeHostToken, RevokeKeys, TrustKey
from xce.model.errors import TextError
from xce.model.ids import Micros
from xce.model.record import Record
from xce.model.record_trust import HostTokenMade, HostTokenUsed, KeyRevoked, KeyTrusted
from xce.model.refusal import Refusal, RefusalCode
from xce.model.trust import (
    CONTROLLER,
    KEY_ROLES,
    KEYS_MAX,
    TOKENS_MAX,
    HostToken,
    RevokedKey,
    TrustedKey,
)
from xce.state.cluster import ClusterState

PREFIX_MIN: Final = 8
"""So many digits of a fingerprint name a key."""
_NAME: Final = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._*-]{0,127}")
_DIGITS: Final = re.compile(r"[0-9a-f]+")
Decided: TypeAlias = tuple[list[Record], list[Accepted | Refusal]]


def decide_keys(
    state: ClusterState, command: TrustKey | RevokeKeys | MakeHostToken | EnrolHost, now_us: Micros
) -> Decided:
    """Return what a command about keys means, and its results."""
    match command:
        case TrustKey():
            return decide_trust(state, command, now_us)
        case RevokeKeys():
            return decide_revoke(state, command, now_us)
        case MakeHostToken():
            return decide_token(state, command, now_us)
        case EnrolHost():
            return decide_enrol(state, command, now_us)


def decide_trust(state: ClusterState, command: TrustKey, now_us: Micros) -> Decided:
    """Return the record that trusts a key."""
    decided = _trusted(
        state,
        command.certificate,
        TrustedKey("", command.role, command.name, b"", command.expires_at_us, now_us, command.by),
        now_us,
    )
    if isinstance(decided, Refusal):
        return [], [decided]
    known = state.trust.keys.get(decided.key)
    same = known is not None and known.expires_at_us == decided.expires_at_us
    return [] if same else [KeyTrusted(decided)], [Accepted(text="trusted")]


def _trusted(
    state: ClusterState, certificate: bytes, wanted: TrustedKey, now_us: Micros
) -> TrustedKey | Refusal:
    """Return ``wanted`` with the key of ``certificate``, or why it cannot be trusted."""
    try:
        key = parse_certificate(certificate).fingerprint
    except TextError as error:
        return Refusal(RefusalCode.BAD_KEY, f"this is {error.message}")
    table = state.trust
    known = table.keys.get(key)
    role, name = wanted.role, wanted.name
    if role not in KEY_ROLES:
        text = f"no role is called {role!r}; known are: {', '.join(KEY_ROLES)}"
        return Refusal(RefusalCode.BAD_REQUEST, text)
    if not _NAME.fullmatch(name):
        text = f"{name!r} is no name: expected letters, digits, dots, dashes, and * as a wildcard"
        return Refusal(RefusalCode.BAD_REQUEST, text)
    if key in table.revoked:
        return Refusal(
            RefusalCode.KEY_REVOKED, f"key {key[:16]} was revoked, which is for ever: make another"
        )
    if 0 < wanted.expires_at_us <= now_us:
        return Refusal(RefusalCode.BAD_REQUEST, "the expiry lies in the past")
    if known is not None and (known.role, known.name) != (role, name):
        text = f"key {key[:16]} is that of {known.role} {known.name}: make one for each role"
        return Refusal(RefusalCode.BAD_KEY, text)
    if known is None and len(table.keys) >= KEYS_MAX:
        text = f"{KEYS_MAX} keys are trusted already: revoke some"
        return Refusal(RefusalCode.TOO_LARGE, text)
    return TrustedKey(key, role, name, certificate, wanted.expires_at_us, now_us, wanted.by)


def decide_revoke(state: ClusterState, command: RevokeKeys, now_us: Micros) -> Decided:
    """Return the records that revoke keys, and a result for each."""
    records: list[Record] = []
    results: list[Accepted | Refusal] = []
    gone: set[str] = set()
    for text in command.keys:
        found = _find_key(state, text.lower())
        if isinstance(found, Refusal):
            results.append(found)
            continue
        if _is_last_controller(state, found, gone, now_us):
            results.append(
                Refusal(
                    RefusalCode.WRONG_STATE,
                    "that is the controller's only key: trust another one first",
                )
            )
            continue
        results.append(Accepted(text="revoked"))
        if found in state.trust.revoked or found in gone:
            continue
        gone.add(found)
        known = state.trust.keys.get(found)
        role, name = (known.role, known.name) if known is not None else ("", "")
        revoked = RevokedKey(found, role, name, now_us, command.by, command.why)
        records.append(KeyRevoked(revoked))
    return records, results


def _find_key(state: ClusterState, text: str) -> str | Refusal:
    """Return the fingerprint that a text means; a whole one need not be known."""
    if _DIGITS.fullmatch(text) and len(text) == FINGERPRINT_CHARACTERS:
        return text
    if not _DIGITS.fullmatch(text) or len(text) < PREFIX_MIN:
        return Refusal(
            RefusalCode.UNKNOWN_KEY,
            f"{text[:80]!r} names no key: give at least {PREFIX_MIN} digits of its fingerprint",
        )
    known = (*state.trust.keys, *state.trust.revoked)
    found = sorted(key for key in known if key.startswith(text))
    if len(found) == 1:
        return found[0]
    count = "no key" if not found else f"{len(found)} keys"
    return Refusal(RefusalCode.UNKNOWN_KEY, f"{count} begin with {text}: see xceadmin keys list")


def _is_last_controller(state: ClusterState, key: str, gone: set[str], now_us: Micros) -> bool:
    known = state.trust.keys.get(key)
    if known is None or known.role != CONTROLLER:
        return False
    left = [item for item in state.trust.valid(CONTROLLER, now_us) if item.key not in gone]
    return [item.key for item in left] == [key]


def decide_token(state: ClusterState, command: MakeHostToken, now_us: Micros) -> Decided:
    """Return the record that lets a host enrol."""
    number = state.hosts.number.get(command.host)
    refusal: Refusal | None = None
    if number is None or not state.hosts.is_configured[number]:
        refusal = Refusal(
            RefusalCode.UNKNOWN_HOST,
            f"host {command.host!r} is not in hosts.yaml; add it and apply the configuration",
        )
    elif command.expires_at_us <= now_us:
        refusal = Refusal(RefusalCode.BAD_REQUEST, "the expiry lies in the past")
    elif 0 < command.key_expires_at_us <= now_us:
        refusal = Refusal(RefusalCode.BAD_REQUEST, "the key's expiry lies in the past")
    elif command.token in state.trust.tokens:
        refusal = Refusal(RefusalCode.BAD_TOKEN, "there is such a token already")
    elif sum(item.expires_at_us > now_us for item in state.trust.tokens.values()) >= TOKENS_MAX:
        refusal = Refusal(RefusalCode.TOO_LARGE, f"{TOKENS_MAX} tokens wait already")
    if refusal is not None:
        return [], [refusal]
    made = HostToken(
        command.token, command.digest, command.host, command.expires_at_us,
        command.key_expires_at_us, command.by,
    )  # fmt: skip
    return [HostTokenMade(made)], [Accepted(text="made")]


def decide_enrol(state: ClusterState, command: EnrolHost, now_us: Micros) -> Decided:
    """Return the records that trust the key of a host which has a token.

    The same key again is the same enrolment, whose answer was lost.
    """
    found = state.trust.tokens.get(command.token)
    if found is None or found.digest != command.digest:
        return [], [Refusal(RefusalCode.BAD_TOKEN, "the token is not known here, or too old")]
    if found.expires_at_us <= now_us:
        return [], [Refusal(RefusalCode.BAD_TOKEN, "the token has expired")]
    if found.host != command.host:
        text = f"the token is for host {found.host}, not for {command.host}"
        return [], [Refusal(RefusalCode.BAD_TOKEN, text)]
    wanted = TrustedKey("", "worker", found.host, b"", found.key_expires_at_us, now_us, found.by)
    decided = _trusted(state, command.certificate, wanted, now_us)
    if isinstance(decided, Refusal):
        return [], [decided]
    if found.used_by == decided.key:
        return [], [Accepted(text="enrolled")]
    if found.used_by:
        return [], [Refusal(RefusalCode.BAD_TOKEN, "the token was used already")]
    records: list[Record] = [HostTokenUsed(found.token, decided.key), KeyTrusted(decided)]
    return records, [Accepted(text="enrolled")]
