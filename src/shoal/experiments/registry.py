"""The studies by name: one line each.

>>> [study.name for study in STUDIES.values()] == list(STUDIES)
True
"""

from __future__ import annotations

from collections.abc import Mapping

from shoal.experiments.bluedove.study import BLUEDOVE
from shoal.experiments.dynatops.study import DYNATOPS
from shoal.experiments.octopia.study import OCTOPIA
from shoal.experiments.relocation.study import RELOCATION
from shoal.experiments.self_organising.study import SELF_ORGANISING
from shoal.experiments.studies.study import Study

STUDIES: Mapping[str, Study] = {
    study.name: study for study in (RELOCATION, BLUEDOVE, SELF_ORGANISING, OCTOPIA, DYNATOPS)
}
