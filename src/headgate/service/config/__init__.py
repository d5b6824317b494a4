"""The configuration file of a service: its model, its form and its schema."""

from headgate.service.config.document import read_config
from headgate.service.config.model import JobSpec, OperatorSpec, ServiceConfig

__all__ = ["JobSpec", "OperatorSpec", "ServiceConfig", "read_config"]
