"""Which application profile a submission means."""

from xce.apiserver.problems import refused
from xce.control.profile import NO_PROFILE, refuse_profile
from xce.model.config import AppConfig, ClusterConfig


def choose_app(name: str | None, config: ClusterConfig) -> AppConfig:
    """Return the application profile that a name means; None: the default one.

    Raises:
        ProblemError: There is none of this name.
    """
    wanted = config.default_application if name is None else name.strip()
    if not wanted:
        return NO_PROFILE
    found = next((app for app in config.applications if app.name == wanted), None)
    if found is None:
        refusal = refuse_profile(wanted, [app.name for app in config.applications])
        raise refused(refusal.code, refusal.text, lsf=refusal.lsf)
    return found
