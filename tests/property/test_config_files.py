"""Whatever the files hold, the answer is a configuration or a ConfigError, never anything else."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from xce.config.api import API, OIDC
from xce.config.parse import parse_config
from xce.config.roles import GRANT, ROLE
from xce.config.schema import CLUSTER, FILES, HOST, QUEUE, RESOURCE
from xce.model.config import ClusterConfig
from xce.model.errors import ConfigError

TABLES = (CLUSTER, HOST, QUEUE, RESOURCE, API, OIDC, ROLE, GRANT)
KEYS = sorted(
    {*(key for table in TABLES for key in table.keys), "pools", "lsf", "attributes", "api"}
    | {"everyone", "roles", "grants"}
)
SCALARS = st.one_of(
    st.sampled_from(["a", "h[1-3]", "8", "512G", "true", "8h", "-1", "~", "counter", "1e999", "'"]),
    st.sampled_from(["job:kill", "job:*", "*", "viewer", "oidc:a", "https://a", "0.0.0.0:1", "/a"]),
    st.text(max_size=12),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: "[" + ", ".join(items) + "]"),
        st.dictionaries(st.one_of(st.sampled_from(KEYS), SCALARS), inner, max_size=4).map(
            lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs.items()) + "}"
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(files=st.dictionaries(st.sampled_from(FILES), VALUES, max_size=3))
@example(files={"hosts.yaml": "\x00"})
@example(files={"hosts.yaml": "\ud800"})
@example(files={"hosts.yaml": '- {names: "\\ud800"}'})
@example(files={"hosts.yaml": "\t- a"})
@example(files={"hosts.yaml": "- {names: a, mem: ٣}"})
@example(files={"hosts.yaml": "- {names: a, slots: ٣}"})
@example(files={"roles.yaml": "grants: [{role: viewer, users: [a], groups: ['\\x01']}]"})
@example(files={"roles.yaml": "everyone: {a: b}"})
@example(files={"xce.yaml": "api: {oidc: {issuer: 'https://[::1', client_id: x}}"})
@example(files={"xce.yaml": "api: {oidc: [], listen: ':0'}"})
def test_any_text_is_a_configuration_or_a_clear_error(files: dict[str, str]) -> None:
    try:
        config = parse_config(files)
    except ConfigError as error:
        for line in str(error).splitlines():
            assert line.split(":")[0] in FILES or line.startswith("..."), line
    else:
        assert isinstance(config, ClusterConfig)
