"""The file that a service is configured with: its keys, its schema and its reading."""

from headgate.service.config.model import JobSpec, OperatorSpec, Quota, ServiceConfig
from headgate.service.config.reading import read_config

__all__ = ["JobSpec", "OperatorSpec", "Quota", "ServiceConfig", "read_config"]
