"""Which cluster is meant, and by whose word: from what is given, the context in use, the environment and the configuration to a session."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eventflink.model.kafka_settings import KafkaRole
from eventflink.session.cluster_session import DIRECTORY_VARIABLE, ClusterSession, find_configuration
from eventflink.session.contexts import ClusterContext, contexts_file, load_contexts


def find_session(
    options: Mapping[str, Any], bootstrap_source: str = "--bootstrap", *, in_context: bool = True, role: KafkaRole = KafkaRole.CLIENT
) -> ClusterSession:
    """Return the session that the global options make, and the context that they name, or else the one in use.

    Raises:
        SessionInvalid: there is no such context, or the file of contexts is not usable.

    """
    named, overrides = options.get("config"), dict(options.get("overrides") or {})
    sources: dict[str, str] = {}
    for name, key, source in (("bootstrap", "bootstrap.servers", bootstrap_source), ("cluster_id", "cluster.id", "--cluster-id")):
        if options.get(name):
            overrides[key], sources[key] = str(options[name]), source
    context_name = options.get("context_name")
    names_cluster = named is not None or DIRECTORY_VARIABLE in os.environ or "bootstrap.servers" in overrides
    if in_context and (context_name or not names_cluster):
        contexts = load_contexts(contexts_file(os.environ))
        context_name = context_name or contexts.current
        context = contexts.find(context_name) if context_name else ClusterContext()
        named = named or (Path(context.config) if context.config else None)
        for key, value in (("bootstrap.servers", context.bootstrap), ("cluster.id", context.cluster_id)):
            if value and key not in overrides:
                overrides[key], sources[key] = value, f"context {context_name}"
    return ClusterSession(find_configuration(named, os.environ), overrides, sources, role)
