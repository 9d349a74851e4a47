"""Hosts that have lost their key and enrol another with a token, and a thief who saw it."""

from random import Random
from typing import Final

import msgspec

from xce.control.controller import Reply
from xce.model.certificate import parse_certificate
from xce.model.command import Accepted, EnrolHost
from xce.model.ids import SECOND_US, Micros
from xce.model.refusal import Refusal, RefusalCode
from xce.sim.certificates import make_certificate
from xce.sim.parts import Parts
from xce.sim.untrue import demand

TRIES_MAX: Final = 4
"""So often a token is tried that nobody knows, which may only be late; then another is made."""
_PAUSE_US: Final = SECOND_US // 2


class Enrolment:
    """One host that enrols. What it says may be lost, or the answer: it says the same again.

    Args:
        world: Where it is.
        host: Which has forgotten its key.
        dice: What decides about all of it.
    """

    def __init__(self, world: Parts, host: str, dice: Random) -> None:
        self._world = world
        self._host = host
        self._dice = dice
        self._certificate = world.keyring.make(host)
        self._tries = 0
        self._token = self._digest = ""
        self._expect()

    def _expect(self) -> None:
        """Have a token made, and say it to the host, and unknowingly to a thief."""
        world, dice = self._world, self._dice
        world.tokens_made += 1
        self._token = f"host{world.tokens_made}"
        self._digest = f"digest of {self._token}"
        self._tries = 0
        for_us = dice.choice((SECOND_US // 4, 2 * SECOND_US, 60 * SECOND_US))
        world.keeper.expect(self._token, self._digest, self._host, for_us=for_us)
        world.loop.after(dice.randrange(2 * _PAUSE_US), self._try)
        if dice.random() < 0.6:
            thief = Thief(world, self._command(), dice)
            for _ in range(dice.randint(1, 4)):
                world.loop.after(dice.randrange(4 * SECOND_US), thief.act)

    def _command(self) -> EnrolHost:
        return EnrolHost(self._token, self._digest, self._host, self._certificate)

    def _try(self) -> None:
        world = self._world
        if world.is_calm:
            return  # everybody gets a key now that is trusted by name
        if self._dice.random() < 0.8:
            world.enrol(self._command(), self._hear, delay_us=self._delay_us())
        self._tries += 1
        world.loop.after(_PAUSE_US + self._dice.randrange(_PAUSE_US), self._try_again, self._token)

    def _delay_us(self) -> Micros:
        return self._dice.choice((1_000, 1_000, 300_000))

    def _try_again(self, token: str) -> None:
        if token and token == self._token:
            self._try()

    def _hear(self, reply: Reply) -> None:
        (result,) = reply.results
        if self._dice.random() < 0.2 or not self._token:
            return  # the answer is lost, or it is one too many
        world, key = self._world, parse_certificate(self._certificate).fingerprint
        if isinstance(result, Accepted):
            trust = world.truth.state.trust
            is_known = key in trust.keys or key in trust.revoked
            demand(is_known, f"host {self._host} has enrolled, and its key is not in the journal")
            self._token = ""
            return
        self._go_on(result, key)

    def _go_on(self, refusal: Refusal, key: str) -> None:
        """Do what an administrator does of whom a host asks why it is not let in."""
        world = self._world
        if world.is_calm:
            return
        if refusal.code == RefusalCode.KEY_REVOKED:
            self._certificate = world.keyring.make(self._host)
            self._expect()
            return
        known = world.truth.state.trust.tokens.get(self._token)
        if known is None and self._tries < TRIES_MAX:
            return
        if known is not None and known.used_by not in ("", key):
            world.keeper.revoke(known.used_by)
        self._expect()


class Thief:
    """Has read a token and heard how it was used, and tries what can be tried with that."""

    def __init__(self, world: Parts, heard: EnrolHost, dice: Random) -> None:
        self._world = world
        self._heard = heard
        self._dice = dice
        number = b"thief" + world.tokens_made.to_bytes(27, "big")
        self._certificate = make_certificate(number)

    def act(self) -> None:
        """Try something."""
        world, dice = self._world, self._dice
        if world.is_calm:
            return
        own = {"certificate": self._certificate}
        change = dice.choice(
            (
                own,
                {},  # what the host said, once more
                {**own, "digest": "a guess"},
                {**own, "host": dice.choice(world.grounds).name},
            )
        )
        said = msgspec.structs.replace(self._heard, **change)

        def hear(reply: Reply) -> None:
            (result,) = reply.results
            if isinstance(result, Accepted):
                is_his = said.digest == self._heard.digest and said.host == self._heard.host
                demand(is_his, f"a token of {self._heard.host} let {said.host} in, or a guess")

        world.enrol(said, hear, delay_us=dice.choice((1_000, 500_000)))
