"""What requests and answers look like: bodies that are checked, and answers as they are described to people.

Answers are described, not checked while the node runs: a field that is new must reach its reader. Tests
make requests from the description, and compare what comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from spdist.cluster.leader.journal_entries import JournalEntry

__all__ = [
    "FORM",
    "REASONS",
    "AppState",
    "AppStatistics",
    "AuthType",
    "Cleared",
    "Content",
    "Cordon",
    "Done",
    "Edge",
    "ErrorBody",
    "Events",
    "ExternalLoginForm",
    "Fed",
    "FileContents",
    "GroupRecord",
    "GroupTopics",
    "Health",
    "JournalEntries",
    "KeptFiles",
    "LeaderNamed",
    "LogRecords",
    "LoggedIn",
    "LoginForm",
    "Moves",
    "NodeStatistics",
    "Nodes",
    "NodesAndApps",
    "OnDemandQuery",
    "Records",
    "Redirection",
    "Responses",
    "Revision",
    "StatisticsSetting",
    "SystemDetails",
    "ThisManager",
    "TopicMessages",
    "Topology",
    "WorkerAddress",
    "answers",
    "fails",
    "takes",
]

Json = dict[str, Any]
Responses = dict[int | str, Json]

#: What a browser's form is sent as.
FORM = "application/x-www-form-urlencoded"

#: Why a request fails, where the route itself says nothing else.
REASONS: Mapping[int, str] = {
    301: "This manager does not lead: the leader is at Location",
    204: "Nobody is known to lead",
    307: "This manager does not lead: the leader is at Location",
    400: "The request is wrong",
    401: "User name or password are missing or wrong, or the token is not known",
    403: "The user lacks the permission",
    404: "There is nothing of that name",
    405: "Not with this method",
    409: "It does not go together with what is there",
    413: "The body is too large",
    415: "The body is of another type",
    429: "Too many wrong passwords: wait as Retry-After says",
    500: "It failed; the body says why",
    503: "Not now: nobody leads, a server does not answer, or the node is busy; try again",
    504: "No answer in time",
}


def takes(kind: type[BaseModel] | None = None, *, example: Any = None, form: bool = False) -> Json:
    """Return how a route describes its body: JSON of a `kind`, or a form of it, or the text of an app."""
    schema: Json = {"type": "string"}
    if kind is not None:
        schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
    content: Json = {"schema": schema} | ({} if example is None else {"example": example})
    media = "text/plain" if kind is None else FORM if form else "application/json"
    return {"openapi_extra": {"requestBody": {"required": True, "content": {media: content}}}}


def answers(kind: Any, *errors: int, status: int = 200, other: Responses | None = None) -> Json:
    """Return how a route describes its answers: a `kind` with `status`, `other` ones, and errors besides the usual."""
    done: Responses = {status: {"model": kind, "description": "Done"}}
    return {"response_model": None, "responses": done | (other or {}) | fails(*errors)}


def fails(*errors: int) -> Responses:
    """Return how a route describes errors that not every route has."""
    return {code: {"model": ErrorBody, "description": REASONS[code]} for code in errors}


class _Described(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")


class _Checked(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


# ------------------------------------------------------------------------------------------------------------- requests
class OnDemandQuery(_Checked):
    """A query on demand (WSO2 ``POST /stores/query``)."""

    app_name: Annotated[str, Field(max_length=500, examples=["Trades"])] = ""
    query: Annotated[str, Field(examples=["from Prices select *"])] = ""
    details: bool = False


class Cordon(_Checked):
    """What is asked of a worker: to be given nothing new, and with ``drain`` to be emptied."""

    drain: Annotated[bool, Field(strict=True)] = False


class StatisticsSetting(_Checked):
    """What WSO2 sets: whether figures are measured, or how many of them."""

    stats_enable: bool | None = None
    enabled_stat_level: Literal["OFF", "BASIC", "DETAIL"] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> StatisticsSetting:
        if self.stats_enable is None and self.enabled_stat_level is None:
            raise ValueError("it needs statsEnable or enabledStatLevel")
        return self


class LoginForm(BaseModel):
    """A login, with the fields of WSO2's pages; others of theirs, such as ``appId``, mean nothing here."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")

    username: Annotated[str, Field(max_length=500)] = ""
    password: Annotated[str, Field(max_length=5000, repr=False)] = ""
    grant_type: Literal["password", "refresh_token"] = "password"
    remember_me: bool = False


class ExternalLoginForm(BaseModel):
    """The same where an identity provider knows the users; without ``grantType`` the node's settings say which."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")

    username: Annotated[str, Field(max_length=500)] = ""
    password: Annotated[str, Field(max_length=5000, repr=False)] = ""
    grant_type: Literal["authorization_code", "password", "refresh_token"] | None = None
    remember_me: bool = False


# --------------------------------------------------------------------------------------------------------------- errors
class ErrorBody(_Described):
    """An error: WSO2's ``type`` and ``message``, with ``code`` where it has one; ``error`` is spdist's stable code."""

    type: Annotated[str, Field(examples=["not-found"])]
    message: Annotated[str, Field(examples=["no app Trades is deployed"])]
    error: Annotated[str, Field(pattern=r"^SP\d{4}$", examples=["SP0704"])]
    code: Literal[800101, 800102] = 800101
    hint: str = ""
    line: int = 0
    column: int = 0
    errors: list[Json] = []
    leader: str | None = None


# -------------------------------------------------------------------------------------------------------------- answers
class Health(_Described):
    """The node answers."""

    status: Literal["healthy"]


class Unhealthy(_Described):
    """The node answers, and another one of its group is to be asked."""

    status: Literal["passive"]
    reason: str


class AuthType(_Described):
    """How users log in: with a form of this node, or (``sso``) at an identity provider, which is named then."""

    auth_type: Literal["local", "sso"]
    issuer: str = ""
    scope: str = ""
    public_client_id: str = ""


class Redirection(_Described):
    """Where a browser logs in, at ``redirectUrl``, and where it is led back to."""

    redirect_url: str
    callback_url: str
    client_id: str
    scope: str


class LoggedIn(_Described):
    """The first halves of the tokens, the others are cookies; how long the access token is good, s."""

    auth_user: str
    partial_access_token: str
    partial_refresh_token: str | None
    validity_period: Annotated[int, Field(ge=1)]


class Done(_Described):
    """What was asked for is done, or is under way."""

    type: Literal["success"]
    message: str


class Cleared(Done):
    """The names of the revisions that are gone."""

    revisions: list[str]


class Content(_Described):
    """The text of an app."""

    content: str


class AppState(_Described):
    """How an app is doing: WSO2's ``status``, and ours."""

    status: Literal["active", "inactive", "passive"]
    state: str
    reason: str


class Revision(_Described):
    """The name of a revision: ``<millis>__<app>``."""

    revision: str


class KeptFiles(_Described):
    """The files that hold the inputs of a group instance: their names by shard; ``mergeWait`` is in ms.

    Of one that runs as Spark Columns there are none, and ``topics`` says which messages are there.
    """

    layout: str
    assignment: Json
    shards: list[list[str]]
    merge_wait: Annotated[int, Field(ge=0)]
    topics: Json | None = None


class TopicMessages(_Described):
    """Messages of Kafka: of each its offset, its time in ms, and its value in base 64."""

    messages: list[list[Any]]


class FileContents(_Described):
    """Files in base 64, in the order in which they were asked for."""

    contents: list[str]


class AppStatistics(_Described):
    """An app and its age in ms; what is measured is always on."""

    app_name: str
    status: Literal["active", "inactive"]
    age: Annotated[int, Field(ge=0)]
    is_stat_enabled: bool


class Edge(_Described):
    """A stream, table or window that a query reads, and what the query writes to."""

    input_stream_id: str
    input_stream_type: str
    input_stream_siddhi_app: str
    output_stream_id: str
    output_stream_type: str
    output_stream_siddhi_app: str


class Records(_Described):
    """The rows of an answer; name and type of each attribute where ``details`` were asked for."""

    records: list[list[Any]]


class JournalEntries(BaseModel):
    """What has happened, the newest first."""

    entries: list[JournalEntry]


class Fed(BaseModel):
    """How many events a stream has taken, and where their producer goes on."""

    accepted: int
    position: Json | None = None


class StreamEvent(BaseModel):
    """An event: its time in ms, its values, and the id under which one can ask for it, where somebody numbers them."""

    timestamp: int
    data: list[Any]
    id: str = ""


class Events(BaseModel):
    """Events of a stream, in order; `next` is the cursor behind them, and `ended` that there are no more for now."""

    model_config = ConfigDict(populate_by_name=True)

    events: list[StreamEvent]
    next: str
    ended: bool
    attributes: Annotated[Any, Field(alias="schema")]
    keys: list[Any] | None = None


class LogRecords(BaseModel):
    """What a node has logged: each record with ``time``, ``level``, ``logger``, ``message``, and what it is about."""

    records: list[Json]


class Moved(BaseModel):
    """A group instance that goes to another worker; null where it has none."""

    model_config = ConfigDict(populate_by_name=True)

    group: str
    source: Annotated[str | None, Field(alias="from")]
    to: str | None
    reason: str


class Moves(BaseModel):
    """Which group instances go where."""

    moves: list[Moved]


class ThisManager(_Described):
    """Whether this manager leads."""

    ha_status: Literal["Active", "Passive"]
    group_id: str


class GroupRecord(_Described):
    """A group instance; what concerns its worker is there once it has one."""

    parent_app_name: str
    group_name: str
    app_name: str
    siddhi_app: str
    app_status: Literal["Active", "waiting"]


class GroupTopics(_Described):
    """The topics of a group instance; host and port are empty while it has no worker."""

    app_name: str
    siddhi_app: str
    deployed_host: str
    deployed_port: str
    source_list: list[str]
    sink_list: list[str]


class Topology(_Described):
    """Groups and topics of an app, and where each instance is."""

    name: str
    groups: list[Json]
    topics: list[Json]


class LeaderNamed(_Described):
    """Who leads, for a worker that has asked another manager."""

    leader: Json


class Nodes(_Described):
    """Managers, workers, and what has happened lately."""

    group_id: str
    leader: str
    term: int
    managers: list[Json]
    workers: list[Json]


class NodesAndApps(Nodes):
    """Managers, workers, what carries topics, and all apps with their groups, as ``/siddhi-apps/{name}/status`` has."""

    transport: str
    apps: list[AppState]


class WorkerAddress(BaseModel):
    """Where a worker is reached."""

    https_host: str
    https_port: int
    nodeId: str


class NodeStatistics(_Described):
    """The load of this node; shares are from 0 to 1."""

    worker_metrics: dict[str, float]
    ha_status: str
    running_status: str
    is_stats_enabled: bool
    cluster_id: Annotated[str, Field(alias="clusterID")]
    os_name: str
    message: str


class SystemDetails(_Described):
    """What this node runs on; ``serverStartTime`` in ms since epoch."""

    spdist_version: str
    python_version: str
    os_name: str
    os_version: str
    user_timezone: str
    server_start_time: int
