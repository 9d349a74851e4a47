"""The configuration files are put in effect, or are refused as a whole."""

import msgspec
from rest_cluster import run_rest

from xce.model.config import HostConfig
from xce.model.errors import ConfigError

APPLY = {"action": "apply"}


def test_administrators_put_the_files_in_effect():
    async def story(rest):
        status, document = await rest.post("/config/actions", APPLY)
        assert (status, document["lsf"]) == (403, "User permission denied")
        rest.be("root", is_admin=True)
        status, document = await rest.post("/config/actions", APPLY)
        assert (status, document["code"]) == (422, "not-built")
        config = rest.controller.state.config
        told = []

        def load():
            return msgspec.structs.replace(
                config, clean_period_us=7, hosts=(*config.hosts, HostConfig(name="h9"))
            )

        rest.backend.site = msgspec.structs.replace(
            rest.backend.site, load_config=load, note_config=told.append
        )
        _, document = await rest.post("/config/actions", APPLY)
        assert (document["text"], document["new_hosts"]) == ("applied", ["h9"])
        assert rest.controller.state.config == load() == told[0]
        _, document = await rest.post("/config/actions", APPLY)
        assert (document["text"], document["new_hosts"]) == ("unchanged", [])

    run_rest(story)


def test_files_with_problems_change_nothing():
    async def story(rest):
        rest.be("root", is_admin=True)

        def load():
            raise ConfigError("queues.yaml:1: is wrong\nhosts.yaml:2: is wrong, too")

        rest.backend.site = msgspec.structs.replace(rest.backend.site, load_config=load)
        version = rest.controller.state.config_version
        status, document = await rest.post("/config/actions", APPLY)
        assert (status, document["code"]) == (422, "bad-config")
        assert document["detail"].count("is wrong") == 2
        assert rest.controller.state.config_version == version
        status, _ = await rest.post("/config/actions", {"action": "eat"})
        assert status == 400

    run_rest(story)
