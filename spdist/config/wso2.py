"""What files of WSO2 Stream Processor 4.1 to 4.4 say in words of their own, said in ours; no IO.

Only keys with another meaning are here. Other spellings of a key stand with it in `spdist.config.sections`, and keys
that mean nothing here in `spdist.config.ignored`.
"""

from __future__ import annotations

import difflib
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace

from spdist.config.ignored import IGNORED
from spdist.config.kinds import PASSWORD_IN_URL, SERVERS, STANDALONE
from spdist.config.source import ValueNode

__all__ = ["CARRIERS", "EVERYWHERE", "SHIPPED_ID", "adapted", "add_own_user", "as_server"]

#: ``wso2.carbon.id`` of every node, as WSO2 ships it.
SHIPPED_ID = "wso2-sp"
_DEPLOYMENT = "deployment.config"
_ARTIFACTS = "wso2.artifact.deployment"
#: Where a listener is at all addresses of its machine.
EVERYWHERE = frozenset({"0.0.0.0", "::", "[::]"})
#: Keys of ``deployment.config`` that choose what carries events between groups.
_KAFKA = ("bootstrapURLs", "zooKeeperConfig", "zooKeeperURLs")
_NATS = ("natsServerUrl", "clusterId")
_CREATOR = "appCreatorClass"
CARRIERS = (*_KAFKA, *_NATS, _CREATOR)
#: Keys of ``siddhi.properties`` that are used.
_SHARED = ("partitionById", "shardId")
#: H2 in a file of its own process: WSO2's default.
_H2_FILE = re.compile(r"jdbc:h2:(?:file:|nio:)?(?!mem:|tcp:|ssl:|zip:)([^;]+)(?:;.*)?")
_JDBC_OPTIONS = re.compile(r"(jdbc:(?:mysql|mariadb|postgresql):[^?]*)\?.*")

Sections = dict[str, ValueNode]
Tell = Callable[[str], None]


def adapted(sections: Mapping[str, ValueNode], tell: Tell) -> Sections:
    """Return the sections of a file with what only WSO2 understands in our words.

    Parameters
    ----------
    sections : mapping of str to ValueNode
        Those of the file, by name. References in it are not resolved.
    tell : callable
        Is told a sentence for each change that somebody may have to know.
    """
    found = dict(sections)
    # First: `_own_id` needs the interface that this adds.
    if _text(_mapping(found.get(_DEPLOYMENT)).get("type")) in SERVERS:
        as_server(found)
    # `_one_database` compares URLs as `_databases` leaves them.
    for step in (_no_directory, _own_id, _transports, _databases, _one_database, _properties):
        step(found, tell)
    return found


def _mapping(node: ValueNode | None, *path: str) -> dict[str, ValueNode]:
    """Return the mapping at `path` below a node; empty where there is none."""
    for name in path:
        node = _mapping(node).get(name)
    return node.content if node is not None and isinstance(node.content, dict) else {}


def _text(node: ValueNode | None) -> str:
    return node.content if node is not None and isinstance(node.content, str) else ""


def _interface(deployment: Mapping[str, ValueNode]) -> Mapping[str, ValueNode]:
    return _mapping(deployment.get("httpsInterface") or deployment.get("httpInterface"))


def _own_id(sections: Sections, tell: Tell) -> None:
    """Give a node an id of its own where it has the one that WSO2 ships to all."""
    carbon = sections.get("wso2.carbon")
    given = _mapping(carbon).get("id")
    if carbon is None or given is None or _text(given) != SHIPPED_ID:
        return
    interface = _interface(_mapping(sections.get(_DEPLOYMENT)))
    host, port = (_text(interface.get(name)) for name in ("host", "port"))
    if host and port not in ("", "0"):
        own = f"{SHIPPED_ID}-{host}-{port}"
        sections["wso2.carbon"] = replace(carbon, content={**_mapping(carbon), "id": replace(given, content=own)})
        tell(f"{given.origin}: wso2.carbon.id is {SHIPPED_ID}, as on every node: this one is {own}")


def _properties(sections: Sections, tell: Tell) -> None:
    """Leave out of ``siddhi.properties`` what other extensions read; what only looks like one of ours is a slip."""
    section = sections.get("siddhi.properties")
    given = _mapping(section)
    others = [name for name in given if name not in _SHARED and not difflib.get_close_matches(name, _SHARED)]
    if section is not None and others:
        rest = {name: node for name, node in given.items() if name not in others}
        sections["siddhi.properties"] = replace(section, content=rest)
        reason = IGNORED["siddhi.extensions"]
        tell(f"{given[others[0]].origin}: siddhi.properties.{', '.join(others)}: not used: {reason}")


def _no_directory(sections: Sections, tell: Tell) -> None:
    """Leave out where apps are as files, where this is no server."""
    kind, given = _text(_mapping(sections.get(_DEPLOYMENT)).get("type")), sections.get(_ARTIFACTS)
    if given is not None and kind == "distributed":  # a reference may turn out to be anything
        del sections[_ARTIFACTS]
        tell(f"{given.origin}: {_ARTIFACTS}: not used: apps are deployed over REST and kept in the database")


def as_server(sections: Sections) -> None:
    """Complete the sections of a server, of which WSO2 does not ask how other nodes reach it: where it listens."""
    section = sections.get(_DEPLOYMENT) or ValueNode({}, "")
    given = _mapping(section)
    added: dict[str, ValueNode] = {} if "type" in given else {"type": ValueNode(STANDALONE, section.origin)}
    listed = _mapping(sections.get("wso2.transport.http")).get("listenerConfigurations")
    listeners = [_mapping(one) for one in listed.content] if listed and isinstance(listed.content, list) else []
    if listed is not None and listeners and not _interface(given):
        own = next((one for one in listeners if _text(one.get("scheme")) == "https"), listeners[0])
        host, scheme = (
            own.get("host", ValueNode("", listed.origin)),
            own.get("scheme", ValueNode("http", listed.origin)),
        )
        told = _mapping(given.get("eventSyncServer")).get("advertisedHost")
        if told is not None and _text(host) in EVERYWHERE:
            host = told
        # 0: the port at which it listens
        added["httpsInterface"] = ValueNode(
            {"host": host, "port": ValueNode("0", listed.origin), "scheme": scheme}, listed.origin
        )
    sections[_DEPLOYMENT] = replace(section, content={**given, **added})


# ----------------------------------------------------------------------------------------------- between the groups
def _transports(sections: Sections, tell: Tell) -> None:
    """Move Kafka's and NATS' addresses out of ``deployment.config``, where they also choose between the two."""
    section = sections.get(_DEPLOYMENT)
    given = _mapping(section)
    asked = [name for name in CARRIERS if name in given]
    if section is None or not asked:
        return
    rest = {name: node for name, node in given.items() if name not in asked}
    sections[_DEPLOYMENT] = replace(section, content=rest)
    origin = given[asked[0]].origin
    if "transports" in sections:
        tell(f"{origin}: {_DEPLOYMENT}.{', '.join(asked)}: not used, since the section transports decides")
        return
    kind, settings = _chosen(given)
    if not settings:
        tell(
            f"{origin}: {_DEPLOYMENT}.{', '.join(asked)}: not used: neither bootstrapURLs nor natsServerUrl is given; "
            "without them, and without transports, files on this machine carry events between groups"
        )
        return
    chosen = {"default": ValueNode(kind, origin), kind: ValueNode(settings, origin)}
    sections["transports"] = ValueNode(chosen, origin)
    tell(
        f"{origin}: {_DEPLOYMENT}.{', '.join(asked)}: so {kind} carries events between groups, as with "
        f"transports.default: {kind}; all nodes of a cluster need the same"
    )


def _chosen(given: Mapping[str, ValueNode]) -> tuple[str, dict[str, ValueNode]]:
    """Return Kafka or NATS, as WSO2 would choose (Kafka unless told otherwise), with the settings of it."""
    servers, brokers = given.get("natsServerUrl"), given.get("bootstrapURLs")
    zookeepers = _mapping(given.get("zooKeeperConfig")).get("zooKeeperURLs") or given.get("zooKeeperURLs")
    kafka = {"bootstrapServers": brokers, "zooKeeperURLs": zookeepers}
    creator = _text(given.get(_CREATOR)).lower()
    if "nats" in creator or (not creator and servers is not None and brokers is None):
        return "nats", {} if servers is None else {"urls": servers}
    return "kafka", {name: node for name, node in kafka.items() if node is not None}


# ------------------------------------------------------------------------------------------------------------ users
def add_own_user(sections: Sections, tell: Tell) -> None:
    """Add the user of this node's own interface where there is no ``auth.configs``: WSO2 has a built-in one then."""
    interface = _interface(_mapping(sections.get(_DEPLOYMENT)))
    username, password = interface.get("username"), interface.get("password")
    if "auth.configs" in sections or username is None or password is None:
        return
    origin = username.origin
    if "${" not in (written := _text(password)):
        # What stands in the file as the password of a user is base64.
        password = replace(password, content=b64encode(written.encode()).decode())
    user = ValueNode({"username": username, "password": password, "roles": ValueNode("admin", origin)}, origin)
    store = ValueNode({"users": ValueNode([ValueNode({"user": user}, origin)], origin)}, origin)
    sections["auth.configs"] = ValueNode({"userManager": ValueNode({"userStore": store}, origin)}, origin)
    tell(
        f"{origin}: without auth.configs, the user of {_DEPLOYMENT}.httpsInterface is the only one, with the role admin"
    )


# -------------------------------------------------------------------------------------------------------- databases
def _databases(sections: Sections, tell: Tell) -> None:
    """Put files of SQLite in place of those of H2, which only Java can open, and leave out what only JDBC knows."""
    section = sections.get("wso2.datasources")
    listed = _mapping(section).get("dataSources")
    if section is None or listed is None or not isinstance(listed.content, list):
        return
    items = [_database(item, tell) for item in listed.content]
    content = {**_mapping(section), "dataSources": replace(listed, content=items)}
    sections["wso2.datasources"] = replace(section, content=content)


def _one_database(sections: Sections, tell: Tell) -> None:
    """Keep apps where the election is: a leader writes them only while its row there says that it leads."""
    section = sections.get(_DEPLOYMENT)
    given = _mapping(section).get("datasource")
    name, own = _text(_mapping(sections.get("cluster.config"), "strategyConfig").get("datasource")), _text(given)
    listed = _mapping(sections.get("wso2.datasources")).get("dataSources")
    items = listed.content if listed is not None and isinstance(listed.content, list) else []
    urls = {_text(_mapping(one).get("name")): _url(one) for one in items}
    if section is None or given is None or not (urls.get(name) and urls.get(own)) or urls[name] == urls[own]:
        return
    sections[_DEPLOYMENT] = replace(section, content={**_mapping(section), "datasource": replace(given, content=name)})
    tell(
        f"{given.origin}: {_DEPLOYMENT}.datasource: apps are kept in {name}, where managers elect their leader, and "
        f"not in {own}: here that is one database"
    )


def _url(item: ValueNode) -> str:
    return _text(_mapping(item, "definition", "configuration").get("jdbcUrl") or _mapping(item).get("url"))


def _database(item: ValueNode, tell: Tell) -> ValueNode:
    given = _mapping(item)
    definition = given.get("definition")
    settings = _mapping(definition, "configuration")
    url = settings.get("jdbcUrl")
    if definition is None or url is None:
        return item
    name, written = _text(given.get("name")), _text(url).strip()
    if match := _H2_FILE.fullmatch(written):
        file = f"{match[1]}.sqlite"
        tell(f"{url.origin}: the H2 database {name} can only be opened by Java: the SQLite file {file} takes its place")
        changed = {"jdbcUrl": replace(url, content=f"jdbc:sqlite:{file}")}
        # The user of H2 is one of that file; SQLite knows none.
        changed |= {key: node for key, node in settings.items() if key not in ("jdbcUrl", "username", "password")}
    # Where a password is among the options they stay, and the URL is refused later.
    elif (match := _JDBC_OPTIONS.fullmatch(written)) and not PASSWORD_IN_URL.search(written):
        tell(f"{url.origin}: the options of {name}'s jdbcUrl after ? are of its Java driver, and not used")
        changed = {**settings, "jdbcUrl": replace(url, content=match[1])}
    else:
        return item
    content = {**_mapping(definition), "configuration": replace(_mapping(definition)["configuration"], content=changed)}
    return replace(item, content={**given, "definition": replace(definition, content=content)})
