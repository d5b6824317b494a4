"""The applications by name."""

from __future__ import annotations

from headgate.apps.click_fraud import CLICK_FRAUD
from headgate.apps.cluster_tasks import CLUSTER_TASKS
from headgate.apps.contract import StreamingApplication
from headgate.apps.flight_distances import FLIGHT_DISTANCES
from headgate.apps.hoeffding_tree import HOEFFDING_TREE
from headgate.apps.nexmark import NEXMARK_QUERIES
from headgate.apps.page_views import DATA_CLEAN, PAGE_VIEW, UNIQUE_VISITOR
from headgate.apps.smart_plugs import SMART_PLUGS
from headgate.apps.texts import GREP, ROLLING_COUNT, ROLLING_HASHTAG_COUNT
from headgate.core.errors import UnknownNameError

APPLICATIONS = (
    SMART_PLUGS,
    CLICK_FRAUD,
    CLUSTER_TASKS,
    GREP,
    ROLLING_COUNT,
    UNIQUE_VISITOR,
    PAGE_VIEW,
    DATA_CLEAN,
    HOEFFDING_TREE,
    ROLLING_HASHTAG_COUNT,
    FLIGHT_DISTANCES,
    *NEXMARK_QUERIES,
)
"""All applications, in the order of their documents."""
_BY_NAME = {application.name: application for application in APPLICATIONS}


def application_names() -> list[str]:
    return [application.name for application in APPLICATIONS]


def find_application(name: str) -> StreamingApplication:
    """Return an application by name."""
    if name not in _BY_NAME:
        raise UnknownNameError("application", name, _BY_NAME)
    return _BY_NAME[name]
