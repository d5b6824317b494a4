"""The applications by name."""

from __future__ import annotations

from headgate.apps.click_fraud import CLICK_FRAUD
from headgate.apps.cluster_tasks import CLUSTER_TASKS
from headgate.apps.contract import StreamingApplication
from headgate.apps.data_clean import DATA_CLEAN
from headgate.apps.flight_distances import FLIGHT_DISTANCES
from headgate.apps.grep import GREP
from headgate.apps.hoeffding_tree import HOEFFDING_TREE
from headgate.apps.nexmark.query_1 import NEXMARK_1
from headgate.apps.nexmark.query_2 import NEXMARK_2
from headgate.apps.nexmark.query_3 import NEXMARK_3
from headgate.apps.nexmark.query_5 import NEXMARK_5
from headgate.apps.nexmark.query_8 import NEXMARK_8
from headgate.apps.nexmark.query_11 import NEXMARK_11
from headgate.apps.page_view import PAGE_VIEW
from headgate.apps.rolling_count import ROLLING_COUNT
from headgate.apps.rolling_hashtag_count import ROLLING_HASHTAG_COUNT
from headgate.apps.smart_plugs import SMART_PLUGS
from headgate.apps.unique_visitor import UNIQUE_VISITOR
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
    NEXMARK_1,
    NEXMARK_2,
    NEXMARK_3,
    NEXMARK_5,
    NEXMARK_8,
    NEXMARK_11,
)
"""All of them, in the order of their documents."""
_BY_NAME = {application.name: application for application in APPLICATIONS}


def application_names() -> list[str]:
    return [application.name for application in APPLICATIONS]


def find_application(name: str) -> StreamingApplication:
    """One application by its name."""
    if name not in _BY_NAME:
        raise UnknownNameError("application", name, _BY_NAME)
    return _BY_NAME[name]
