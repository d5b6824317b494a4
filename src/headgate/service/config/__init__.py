"""The file that a service is configured with: its keys, its schema and its reading."""

from headgate.service.config.document import read_config
from headgate.service.config.model import JobSpec, OperatorSpec, Quota, ServiceConfig

__all__ = ["JobSpec", "OperatorSpec", "Quota", "ServiceConfig", "read_config"]
