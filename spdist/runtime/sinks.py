"""The users' sinks of an instance before it runs: a wrong option is said then, not when the first event comes."""

from __future__ import annotations

from spdist.config.allowed import Allowed
from spdist.connectors.registry import Connector, connector
from spdist.connectors.sending import SinkContext, open_sink
from spdist.errors import SiddhiAppError
from spdist.language import ast
from spdist.mapping.templates import Template
from spdist.planning.compiled import tree_of
from spdist.planning.topology import Assignment
from spdist.transports.log import LogTransport
from spdist.transports.options import options_of, written_in

__all__ = ["check_sinks"]


def check_sinks(assignment: Assignment, allowed: Allowed) -> None:
    """Open the sinks of an instance, and close them again.

    Parameters
    ----------
    assignment : Assignment
        The instance; its text says what it sends.
    allowed : Allowed
        The secrets and files that it may refer to.

    Raises
    ------
    SiddhiAppError
        An option is missing or wrong; shows where.
    """
    context = SinkContext("", LogTransport("."), {}, allowed=allowed)
    for definition in tree_of(assignment.text).definitions:
        if isinstance(definition, ast.StreamDefinition):
            for sink in ast.find_annotations(definition.annotations, "sink"):
                known = connector(sink.get("type"))
                if known is None or not known.sink:
                    continue
                if known.check:
                    _ask(known, definition, sink, allowed, assignment.text)
                else:
                    _check(definition, sink, context, assignment.text)


def _ask(known: Connector, stream: ast.StreamDefinition, sink: ast.Annotation, allowed: Allowed, text: str) -> None:
    """Let the connector look at a sink itself."""
    try:
        known.load(known.check)(options_of(sink, stream.name, allowed), sink, stream.schema)
    except SiddhiAppError as error:
        error.text = text
        raise


def _check(stream: ast.StreamDefinition, sink: ast.Annotation, context: SinkContext, text: str) -> None:
    destinations = [one for chosen in sink.nested("distribution") for one in chosen.nested("destination")]
    # What stands for an option that differs from event to event, while the others are checked.
    written = {
        key: Template(value, stream.schema).sample for key, value in options_of(sink, stream.name).values.items()
    }
    places: list[ast.Annotation | None] = [*destinations] or [None]
    for one in places:
        own = {} if one is None else written_in(one)
        try:
            open_sink(sink.get("type") or "", {**written, **own}, context).close()
        except SiddhiAppError as error:
            error.span, error.text = sink.span if one is None else one.span, text
            raise
