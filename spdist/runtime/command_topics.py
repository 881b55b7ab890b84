"""Which group instances can be asked, and what they then read and publish in addition to their events."""

from __future__ import annotations

from dataclasses import replace

from spdist.language import ast
from spdist.planning.compiled import tree_of
from spdist.planning.topology import AssignedInput, AssignedOutput, Assignment, Publishing, Strategy
from spdist.transports.commands import ANSWERS, COMMANDS, answers_topic, commands_topic

__all__ = ["commanded"]


def commanded(assignment: Assignment) -> Assignment:
    """Return the assignment with topics for commands and answers, where its app keeps something to ask for.

    Tables, named windows and aggregations; another assignment is returned as it is.
    """
    kept = (ast.TableDefinition, ast.WindowDefinition, ast.AggregationDefinition)
    if not any(isinstance(definition, kept) for definition in tree_of(assignment.text).definitions):
        return assignment
    name = assignment.name
    answers = Publishing(Strategy.ALL, 1, answers_topic(name), 1)
    return replace(
        assignment,
        inputs=(*assignment.inputs, AssignedInput(COMMANDS, commands_topic(name), (0,))),
        outputs=(*assignment.outputs, AssignedOutput(ANSWERS, (answers,))),
    )
