"""The part of Headgate that runs next to a job when the decisions are made elsewhere."""

from headgate.agent.agent import Agent, Controller, HttpController
from headgate.agent.join import join

__all__ = ["Agent", "Controller", "HttpController", "join"]
