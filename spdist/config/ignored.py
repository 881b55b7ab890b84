"""Keys of WSO2 Stream Processor that are accepted and not used, with the reason, which `Config.notes` repeats.

A key that is in neither this table nor a section is an error, so that a slip of the pen never passes in silence.
"""

from __future__ import annotations

__all__ = ["IGNORED"]

_JVM = "it configures the Java server that WSO2 SP runs on"
_PLUG = "there is one implementation, and it is used"
_SQL = "all SQL is made by SQLAlchemy for the database at hand"
_JMS = "JMS carries no events between groups here; Kafka or NATS do, see transports, or files on this machine"
_HA = "an event is durable before it is acknowledged, and the server that takes over reads it: nothing is to be synced"
_METRICS = "figures are shown by the nodes' own interface and panels"
_EXTENSIONS = "extensions are Python code here, and take their settings in the app"
_TEST = "drivers test a connection in their own way, and it may take as long as any statement"
_CLIENT = "one client is enough, spClientId; it is registered at the provider"
_CERTIFICATES = "certificates of the provider are checked with properties.trustFile, or the system's authorities"
_PAGES = "pages of WSO2 have sessions of their own; here one login is good for all"
#: Of ``auth.configs.properties``, for an identity provider.
_PROVIDER = {
    **dict.fromkeys(("kmDcrUrl", "dcrAppOwner", "databaseName"), _CLIENT),
    **dict.fromkeys(("portalClientId", "statusDashboardClientId", "businessRulesClientId"), _CLIENT),
    **dict.fromkeys(("portalClientSecret", "statusDashboardClientSecret", "businessRulesClientSecret"), _CLIENT),
    **dict.fromkeys(("portalAppContext", "statusDashboardAppContext", "businessRulesAppContext"), _PAGES),
    **dict.fromkeys(("kmCertAlias", "idpCertAlias"), _CERTIFICATES),
    **dict.fromkeys(("publicKeyLocation", "oidcUserInfoAlgo"), "keys are those of the provider's jwksUrl"),
    **dict.fromkeys(("enableFilteredGroups", "defaultUserStore"), "roleMapping names groups as tokens do"),
    "kmTokenUrlForRedirection": "the provider says itself where people log in",
    "externalLogoutUrl": "a logout here ends the token; the session at the provider is ended there",
}
_THREADS = ("bossThreadPoolSize", "workerThreadPoolSize", "execHandlerThreadPoolSize")

IGNORED: dict[str, str] = {
    # the server
    "wso2.carbon.type": _JVM,
    "wso2.carbon.tenant": _JVM,
    "wso2.securevault": "passwords come from ${env:NAME} or ${file:path}",
    "wso2.metrics": _METRICS,
    "wso2.metrics.jdbc": _METRICS,
    "wso2.status.dashboard": _METRICS,
    "wso2.business.rules.manager": _METRICS,
    "wso2.transport.http.transportProperties": _JVM,
    "wso2.transport.http.senderConfigurations": "calls to other nodes need no settings but trustFile",
    **{f"wso2.transport.http.listenerConfigurations[].{key}": _JVM for key in _THREADS},
    "siddhi.stores.query.api": "queries on demand go to the node's own interface: POST /stores/query",
    "databridge.config": _JVM,
    "data.agent.config": _JVM,
    "analytics.solutions": _JVM,
    # the cluster
    "cluster.config.enabled": "managers, and servers of type ha, always take part in the election; who is alone leads",
    "cluster.config.coordinationStrategyClass": _PLUG,
    "cluster.config.strategyConfig.queries": _SQL,
    "deployment.config.queries": _SQL,
    "deployment.config.factoryInitial": _JMS,
    "deployment.config.providerUrl": _JMS,
    "deployment.config.passiveNodeDetailsWaitTimeOutMillis": _HA,
    "deployment.config.passiveNodeDetailsRetrySleepTimeMillis": _HA,
    "deployment.config.eventSyncServer": _HA,
    "deployment.config.eventSyncClientPool": _HA,
    "deployment.config.eventByteBufferQueueCapacity": _HA,
    "deployment.config.byteBufferExtractorThreadPoolSize": _HA,
    "deployment.config.liveSync": _HA,
    "deployment.config.outputSyncInterval": _HA,
    "deployment.config.stateSyncGracePeriod": _HA,
    "deployment.config.sinkQueueCapacity": _HA,
    "deployment.config.retryAppSyncPeriod": _HA,
    # state
    "state.persistence.config.queries": _SQL,
    # databases
    "wso2.datasources.dataSources[].jndiConfig.useJndiReference": "apps name jndiConfig.name itself",
    "wso2.datasources.dataSources[].definition.type": "every datasource is a relational database",
    "wso2.datasources.dataSources[].definition.configuration.driverClassName": "it follows from jdbcUrl",
    "wso2.datasources.dataSources[].definition.configuration.connectionTestQuery": _TEST,
    "wso2.datasources.dataSources[].definition.configuration.validationTimeout": _TEST,
    "wso2.datasources.dataSources[].definition.configuration.isAutoCommit": "changes are made in transactions",
    # apps
    "siddhi.extensions": _EXTENSIONS,
    "siddhi.refs": "sources, sinks and stores are written out in the app",
    # users
    "auth.configs.ssoEnabled": "properties.grantType says how people log in",
    **{f"auth.configs.properties.{key}": reason for key, reason in _PROVIDER.items()},
    "auth.configs.restAPIAuthConfigs": "every request is authenticated; this cannot be switched off",
}
