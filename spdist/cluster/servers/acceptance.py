"""What a server makes of the text of an app: one instance, as of `spdist run`, within the limits of its settings."""

from __future__ import annotations

import contextlib
from functools import partial

from spdist.cluster.managers.plans import checked_name, free_name
from spdist.config import Config
from spdist.errors import PlanningError
from spdist.planning.limits import AppLimits
from spdist.planning.topology import Assignment

__all__ = ["accepted", "owner_of_topics"]


def accepted(config: Config, text: str) -> Assignment:
    """Return what is to be run of an app on a server with these settings.

    Raises
    ------
    SiddhiAppError
        The text is wrong, asks for what cannot be run, or is too large; shows where.
    """
    from spdist.config.allowed import allowed_of
    from spdist.language.parsing.parser import parse
    from spdist.runtime.standalone import prepare

    app, limits = parse(text), config.limits
    free_name(checked_name(app.name))
    AppLimits(limits.elements, limits.groups, limits.instances, limits.characters).check_elements(app)
    made = partial(
        prepare,
        text,
        scripts=config.script.python_enabled,
        allowed=allowed_of(config),
        transport=config.transports.default,
        owner=owner_of_topics(config),
    )
    if config.spark.shards > 1:
        # As on workers, an app that cannot be split is not.
        with contextlib.suppress(PlanningError):
            return made(config.spark.shards)
    return made()


def owner_of_topics(config: Config) -> str:
    """Return whose the topics of its apps are: brokers are shared with others, a directory with none but its group."""
    if config.transports.default == "log":
        return ""
    return config.cluster.group_id if config.is_ha else config.carbon.id
